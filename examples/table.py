"""A table in a CSV file: from the file to a model, its score, and a saved network.

Without arguments it takes a table of scikit-learn's; for yours, pass the file and the
column to predict: `python examples/table.py mine.csv price`.
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from keras_swim import SwimClassifier, SwimRegressor

if len(sys.argv) == 3:
    path, target = Path(sys.argv[1]), sys.argv[2]
else:
    # Sizes and shapes of cells of 569 tumours, and whether these were malignant.
    data = load_breast_cancer(as_frame=True)
    path, target = Path(tempfile.mkdtemp()) / "cancer.csv", "diagnosis"
    diagnosis = data.target.map({0: "malignant", 1: "benign"})
    data.data.assign(diagnosis=diagnosis).to_csv(path, index=False)

# Text and missing values may stay as they are.
table = pd.read_csv(path).dropna(subset=[target])
x, y = table.drop(columns=target), table[target]
classes = not pd.api.types.is_numeric_dtype(y)
x, x_test, y, y_test = train_test_split(
    x, y, test_size=0.2, stratify=y if classes else None, random_state=0
)

estimator = SwimClassifier if classes else SwimRegressor
model = estimator(random_state=0).fit(x, y)
print(f"fitted to {len(x)} rows of {path}")

# Preprocessing included: it takes the columns as they are in the file.
saved = path.with_suffix(".keras")
model.to_keras(target).save(saved)
unseen = path.with_name(f"{path.stem}_unseen.csv")
x_test.assign(**{target: y_test}).to_csv(unseen, index=False)
print(f"try: keras-swim evaluate {saved} {unseen}")

score = "accuracy" if classes else "R2"
print(f"{score} on {len(x_test)} unseen rows: {model.score(x_test, y_test):.3f}")
