"""The mathematics: NumPy and SciPy only, no Keras."""
