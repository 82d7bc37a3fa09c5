"""Handwritten digits: a network in a second, without gradient descent."""

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from keras_swim import SampledDense, swim_fit

data = load_digits(return_X_y=True)
x, x_test, y, y_test = train_test_split(*data, random_state=0)

model = keras.Sequential()
model.add(keras.layers.Rescaling(1 / 16))
model.add(SampledDense(1000))
model.add(keras.layers.Dense(10, activation="softmax"))
history = swim_fit(model, x, y, validation_data=(x_test, y_test), seed=0)

first, second = model.layers[1].pairs[0]
labels = f"a {y[first]} and a {y[second]}"
print(f"unit 0 was made from rows {first} and {second}: {labels}")
print(f"accuracy on unseen digits: {history.history['val_accuracy'][0]:.3f}")
