"""Fitting whole Keras models in closed form."""
