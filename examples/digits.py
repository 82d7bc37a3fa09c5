"""Handwritten digits: a network in a second, without gradient descent."""

import keras
from sklearn.datasets import load_digits

from keras_swim import SampledDense, swim_fit

x, y = load_digits(return_X_y=True)
x = x.astype("float32") / 16

model = keras.Sequential(
    [SampledDense(1000), keras.layers.Dense(10, activation="softmax")]
)
history = swim_fit(
    model, x[:1200], y[:1200], validation_data=(x[1200:], y[1200:]), seed=0
)
first, second = model.layers[0].pairs[0]
print(
    f"unit 0 was made from row {first} (a {y[first]}) and row {second} (a {y[second]})"
)
print(f"accuracy on unseen digits: {history.history['val_accuracy'][0]:.3f}")
