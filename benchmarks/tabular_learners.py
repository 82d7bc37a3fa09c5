"""The learners of tabular.py: functions from training rows to a `predict`.

Each takes a data frame `x` (categories as str, `None` where one is missing), a target
`y` (codes 0 .. classes - 1, all of them there; or floats), the number of classes
(`None` in regression) and a seed. It returns `predict(frame)` and a dict of facts.
`predict` gives `(n, classes)` probabilities, or `(n,)` labels or numbers.
"""

import time
from functools import partial

import numpy as np

WIDTH = 500
DEPTHS = (1, 2, 3, 4, 5)
# Networks of several depths that Adam has trained.
BY_GRADIENT = ("adam", "piped")
EPOCHS, BATCH, RATE, PATIENCE = 100, 64, 1e-3, 3


def swim_table(method, x, y, classes, seed):
    from keras_swim import SwimClassifier, SwimRegressor

    kind = SwimRegressor if classes is None else SwimClassifier
    model = kind(method=method, random_state=seed).fit(x, y)
    return model.predict if classes is None else model.predict_proba, {}


def paper_matrix(x):
    """Unfitted: medians, RobustScaler, one-hot. A missing category is one too."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, RobustScaler

    texts = [name for name in x.columns if x[name].dtype == object]
    numbers = [name for name in x.columns if name not in texts]
    return make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), RobustScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
        sparse_threshold=0,
    )


def on_matrix(fit, *settings):
    """A learner on frames from one on the paper's matrix."""

    def fit_frame(x, y, classes, seed):
        matrix = paper_matrix(x)
        rows = matrix.fit_transform(x)
        predict, facts = fit(*settings, rows, y, classes, seed)
        return lambda x: predict(matrix.transform(x)), facts

    return fit_frame


def estimator(make, x, y, classes, seed):
    """Fits what `make(classes, seed)` gives."""
    model = make(classes, seed).fit(x, y)
    return model.predict if classes is None else model.predict_proba, {}


def xgboost(classes, seed):
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBRegressor if classes is None else XGBClassifier
    return kind(n_jobs=1, random_state=seed)


def lightgbm(classes, seed):
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMRegressor if classes is None else LGBMClassifier
    return kind(n_jobs=1, random_state=seed, verbose=-1)


def histogram_trees(classes, seed):
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    if classes is None:
        return HistGradientBoostingRegressor(random_state=seed)
    return HistGradientBoostingClassifier(random_state=seed)


def linear(classes, seed):
    from sklearn.linear_model import LogisticRegression, RidgeCV

    if classes is None:
        return RidgeCV(np.logspace(-3, 4, 15))
    return LogisticRegression(max_iter=1000)


def mlp(classes, seed):
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.preprocessing import StandardScaler

    if classes is not None:
        return MLPClassifier(random_state=seed)
    # Prices of half a million are out of its reach otherwise.
    return TransformedTargetRegressor(
        MLPRegressor(random_state=seed), transformer=StandardScaler()
    )


def swimnetworks(x, y, classes, seed):
    from sklearn.pipeline import make_pipeline
    from swimnetworks import Dense, Linear

    classifier = classes is not None
    hidden = Dense(
        layer_width=WIDTH,
        activation="tanh",
        parameter_sampler="tanh",
        is_classifier=classifier,
        random_seed=seed,
    )
    readout = Linear(regularization_scale=1e-10, is_classifier=classifier)
    pipeline = make_pipeline(hidden, readout)
    pipeline.fit(x, y if classifier else y[:, None])
    return lambda x: pipeline.transform(x).ravel(), {}


def sampled_network(depth, sampler, x, y, classes, seed):
    """A `SwimMLP` and its `swim_fit`."""
    from keras_swim import SwimMLP, swim_fit

    model = SwimMLP(
        classes or 1,
        WIDTH,
        depth,
        "tanh",
        x.shape[1],
        output_activation=classes and "softmax",
        scale=x.shape[1] ** -0.5 if sampler == "random" else 1.0,
        sampler=sampler,
        seed=seed,
    )
    swim_fit(model, x, y if classes else y[:, None], seed=seed, verbose=0)
    return partial(keras_predict, model, classes)


def keras_predict(model, classes, x):
    found = model.predict(x, batch_size=2048, verbose=0)
    return found.ravel() if classes is None else found


def random_features(x, y, classes, seed):
    return sampled_network(1, "random", x, y, classes, seed), {}


def held_tenth(y, classes, seed):
    """Row numbers of nine tenths and of one tenth of the training rows."""
    from sklearn.model_selection import train_test_split

    few = classes is not None and np.bincount(y).min() < 2
    stratify = None if classes is None or few else y
    return train_test_split(
        np.arange(len(y)), test_size=0.1, stratify=stratify, random_state=seed
    )


def log_loss(probabilities, y):
    p = np.clip(np.asarray(probabilities, dtype=float), 1e-12, None)
    p /= p.sum(axis=1, keepdims=True)
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def rmse(found, y):
    return float(np.sqrt(np.mean((found - y) ** 2)))


def sampled(depth, x, y, classes, seed):
    """On all rows; a second fit on nine tenths only tells how good this depth is."""
    predict = sampled_network(depth, "gradient", x, y, classes, seed)
    start = time.perf_counter()
    rows, held = held_tenth(y, classes, seed)
    judged = sampled_network(depth, "gradient", x[rows], y[rows], classes, seed)
    score = rmse if classes is None else log_loss
    facts = {"validation": score(judged(x[held]), y[held])}
    return predict, {**facts, "judge_seconds": time.perf_counter() - start}


def adam_model(depth, columns, classes, seed):
    import keras

    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.Input((columns,)),
            keras.layers.Normalization(),
            *[keras.layers.Dense(WIDTH, "tanh") for _ in range(depth)],
            keras.layers.Dense(classes or 1, classes and "softmax"),
        ]
    )
    loss = "mse" if classes is None else "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.Adam(RATE), loss)
    return model


def arrays(x, y):
    """As most people pass them."""
    return x, y


def pipeline(x, y):
    """Batches of `tf.data` in a new order each time, without its autotuning.

    At the end of each epoch the autotuning of TensorFlow 2.21 sleeps, for up to as
    long as the epoch has taken.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    batches = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(BATCH)
    return batches.with_options(options)


def adam(depth, batches, x, y, classes, seed):
    import keras

    rows, held = held_tenth(y, classes, seed)
    centre, spread = (y.mean(), y.std()) if classes is None else (0, 1)
    target = (y - centre) / spread if classes is None else y
    model = adam_model(depth, x.shape[1], classes, seed)
    model.layers[0].adapt(x[rows])
    training = batches(x[rows], target[rows])
    if batches is arrays:
        training = dict(zip(("x", "y"), training, strict=True), batch_size=BATCH)
    else:
        training = {"x": training, "shuffle": False}
    history = model.fit(
        **training,
        validation_data=batches(x[held], target[held]),
        epochs=EPOCHS,
        callbacks=[
            keras.callbacks.EarlyStopping(patience=PATIENCE, restore_best_weights=True)
        ],
        verbose=0,
    )
    losses = history.history["val_loss"]
    facts = {"validation": float(np.min(losses)), "epochs": len(losses)}
    predict = partial(keras_predict, model, classes)
    if classes is None:
        return lambda x: predict(x) * spread + centre, facts
    return predict, facts


LEARNERS = {
    "layer": partial(swim_table, "layer"),
    "boost": partial(swim_table, "boost"),
    "xgboost": on_matrix(estimator, xgboost),
    "lightgbm": on_matrix(estimator, lightgbm),
    "histgb": on_matrix(estimator, histogram_trees),
    "linear": on_matrix(estimator, linear),
    "mlp": on_matrix(estimator, mlp),
    "swimnetworks": on_matrix(swimnetworks),
    "random": on_matrix(random_features),
    **{f"sampled-{depth}": on_matrix(sampled, depth) for depth in DEPTHS},
    **{f"adam-{depth}": on_matrix(adam, depth, arrays) for depth in DEPTHS},
    **{f"piped-{depth}": on_matrix(adam, depth, pipeline) for depth in DEPTHS},
}
TITLES = {
    "layer": 'ours, method="layer"',
    "boost": 'ours, method="boost"',
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "histgb": "HistGradientBoosting",
    "linear": "logistic regression (ridge)",
    "mlp": "MLP of scikit-learn",
    "swimnetworks": f"swimnetworks {WIDTH}",
    "random": f"random features {WIDTH}",
    **{f"sampled-{depth}": f"sampled {depth} x {WIDTH}" for depth in DEPTHS},
    "sampled-nested": f"sampled {WIDTH}, depth chosen",
    **{f"adam-{depth}": f"Adam {depth} x {WIDTH}" for depth in DEPTHS},
    "adam-nested": f"Adam {WIDTH}, depth chosen",
    **{f"piped-{depth}": f"Adam {depth} x {WIDTH}, pipeline" for depth in DEPTHS},
    "piped-nested": f"Adam {WIDTH}, pipeline, depth chosen",
}
OURS = ("layer", "boost")
