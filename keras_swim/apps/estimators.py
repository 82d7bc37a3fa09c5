"""SwimClassifier and SwimRegressor: sampled networks for tables, for scikit-learn."""

import warnings
from numbers import Integral

import numpy as np

from keras_swim.apps.table_input import as_kinds, has_categories, is_frame, read_columns
from keras_swim.core.boosting import Boosting
from keras_swim.core.table_model import METHODS, fit_table
from keras_swim.core.table_stream import TableStream

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.class_weight import compute_sample_weight
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _check_sample_weight,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        "SwimClassifier and SwimRegressor need scikit-learn 1.6 or newer: "
        "pip install keras-swim[sklearn]"
    ) from error


def _goes_on(estimator):
    """Whether an estimator has `partial_fit`."""
    if estimator.method == "boost":
        raise AttributeError(
            "`partial_fit` goes on with the sampled layer. Received: "
            'method="boost", whose rounds need all rows: use method="layer".'
        )
    return True


class _SwimTable(BaseEstimator):
    """What classifier and regressor have in common."""

    def __init__(
        self,
        method="auto",
        units=None,
        bags=None,
        rounds=120,
        preprocessing="auto",
        categorical_features=None,
        random_state=None,
    ):
        self.method = method
        self.units = units
        self.bags = bags
        self.rounds = rounds
        self.preprocessing = preprocessing
        self.categorical_features = categorical_features
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _check_parameters(self):
        if self.method not in ("auto", *METHODS):
            raise ValueError(
                '`method` must be "auto", "layer" or "boost". Received: '
                f"method={self.method!r}"
            )
        if self.preprocessing not in ("auto", None):
            raise ValueError(
                '`preprocessing` must be "auto" or None. Received: '
                f"preprocessing={self.preprocessing!r}"
            )
        for name, least in (("units", 1), ("bags", 2), ("rounds", 1)):
            value = getattr(self, name)
            if name in ("units", "bags") and value is None:
                continue
            if not isinstance(value, Integral) or value < least:
                raise ValueError(
                    f"`{name}` must be an integer, {least} or more. Received: "
                    f"{name}={value!r}"
                )

    def _chosen_method(self):
        return "boost" if self.method == "auto" else self.method

    def _table(self, X, reset):
        """Columns of X as a dict, checked against those of the fit."""
        if is_frame(X):
            if not reset:
                X = self._same_columns(X)
            validate_data(self, X, reset=reset, skip_check_array=True)
            if X.shape[0] == 0 or X.shape[1] == 0:
                raise ValueError(
                    f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} "
                    "feature(s) while a minimum of 1 is required."
                )
        else:
            X = validate_data(
                self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan"
            )
        table = read_columns(X, self.categorical_features)
        if reset:
            self._kinds = {name: has_categories(one) for name, one in table.items()}
            texts = [name for name, categories in self._kinds.items() if categories]
            if self.preprocessing is None and texts:
                raise ValueError(
                    "`preprocessing=None` takes numbers as they are. Received: "
                    f"categories in column {texts[0]!r}. Encode them, or leave "
                    '`preprocessing="auto"`.'
                )
        elif not is_frame(X):
            table = dict(zip(self._kinds, table.values(), strict=True))
        table = as_kinds(table, self._kinds)
        if self.preprocessing is None:
            for name, values in table.items():
                if np.isnan(values).any():
                    raise ValueError(
                        f"`preprocessing=None` takes numbers as they are. Column "
                        f"{name!r} contains NaN: fill it, or leave "
                        '`preprocessing="auto"`.'
                    )
        return table

    def _same_columns(self, X):
        """The columns of the fit, if all are there; others are of no matter."""
        names = getattr(self, "feature_names_in_", None)
        if names is None or list(X.columns) == list(names):
            return X
        missing = [name for name in names if name not in X.columns]
        if missing:
            raise ValueError(
                "The feature names should match those that were passed during fit. X "
                f"lacks: {', '.join(map(repr, missing[:8]))}. It has: "
                f"{', '.join(map(repr, list(X.columns)[:8]))}."
            )
        return X[list(names)]

    def _fit_table(self, table, target, classes, sample_weight, method):
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31)
        self.method_ = method
        if hasattr(self, "stream_"):
            # A fit begins anew.
            del self.stream_
        self.model_ = fit_table(
            table,
            target,
            classes=classes,
            sample_weight=sample_weight,
            method=self.method_,
            units=self.units,
            bags=self.bags,
            settings=Boosting(rounds=self.rounds),
            preprocess=self.preprocessing == "auto",
            seed=int(seed),
        )

    def _first_or_next(self, table, target, classes, sample_weight):
        """Units from the first rows, readouts from all of them."""
        if not hasattr(self, "stream_"):
            if hasattr(self, "model_"):
                warnings.warn(
                    "`fit` keeps no sums of its rows, so `partial_fit` begins anew "
                    "here. To go on, call `partial_fit` from the first rows on.",
                    stacklevel=3,
                )
            self._fit_table(table, target, classes, sample_weight, "layer")
            self.stream_ = TableStream(self.model_)
        self.stream_.update(table, target, sample_weight)

    def _streamed_table(self, X):
        """Columns of X; the first of a stream are those to come."""
        return self._table(X, reset=not hasattr(self, "stream_"))

    def _weights(self, sample_weight, X):
        if sample_weight is None:
            return None
        weight = _check_sample_weight(sample_weight, X, dtype=float)
        if (weight < 0).any() or not weight.any():
            raise ValueError(
                "`sample_weight` must be non-negative and not all zero. Received: "
                f"minimum {weight.min()}, sum {weight.sum()}."
            )
        return weight

    def to_keras(self, target=None):
        """The fitted model as one Keras model, preprocessing included.

        It takes a dict from column names (for arrays: one `(n, d)` array) to
        `(n, 1)` arrays and gives what `predict_proba` or `predict` gives. Categories
        are strings, which only the TensorFlow backend takes.

        Args:
            target: `None`, or the name of what is predicted: its file then is all that
                `keras-swim evaluate` needs.

        Returns:
            A `keras.Model`. Its file loads with `import keras_swim`.
        """
        from keras_swim.build.tables import table_model

        check_is_fitted(self)
        names = list(self._kinds) if hasattr(self, "feature_names_in_") else None
        return table_model(
            self.model_,
            self._kinds,
            named=names is not None,
            class_names=getattr(self, "classes_", None),
            target=target,
        )


class SwimClassifier(ClassifierMixin, _SwimTable):
    """Classifier for tables: sampled units, solved readouts, no gradient descent.

    Columns may be numbers and categories (text), with missing values; see
    `keras_swim.core.table_columns` for what is made of them. Probabilities are
    calibrated on rows that the models have not seen.

    Args:
        method: `"layer"` (one sampled layer, fast), `"boost"` (boosted blocks of
            sampled units beside it, best; with fewer than 20 rows only the layer),
            or `"auto"`: `"boost"` in `fit`, `"layer"` in `partial_fit`.
        units: Units of each of the three groups of the sampled layer, or `None`:
            400 to 800, by the number of rows, the method and the kind of target.
        bags: Number of bags of `"boost"`, or `None`: 8 for 200 to 600 rows, otherwise
            4.
        rounds: Most rounds of each bag.
        preprocessing: `"auto"`, or `None`: X has numbers only and is taken as it
            is.
        categorical_features: `None`, or names (for arrays numbers) of columns of
            numbers that are categories. Text always is.
        class_weight: `None`, `"balanced"`, or a dict from class to weight.
        random_state: Seed.

    Attributes:
        classes_: The class labels.
        model_: `keras_swim.core.table_model.TableModel`: columns, units with the
            rows behind them, readouts, held-out scores of the training rows.
        method_: The method that was used.

    Example:

    >>> from sklearn.datasets import load_iris
    >>> from keras_swim import SwimClassifier
    >>> x, y = load_iris(return_X_y=True)
    >>> model = SwimClassifier(method="layer", random_state=0).fit(x, y)
    >>> model.predict(x[:3]).tolist()
    [0, 0, 0]
    """

    def __init__(
        self,
        method="auto",
        units=None,
        bags=None,
        rounds=120,
        preprocessing="auto",
        categorical_features=None,
        class_weight=None,
        random_state=None,
    ):
        super().__init__(
            method=method,
            units=units,
            bags=bags,
            rounds=rounds,
            preprocessing=preprocessing,
            categorical_features=categorical_features,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def fit(self, X, y, sample_weight=None):
        """Fits the model.

        Args:
            X: Data frame, or `(n, d)` array.
            y: `(n,)` labels.
            sample_weight: `None` or `(n,)`: a row of weight 2 counts as two rows.

        Returns:
            Itself.
        """
        self._check_parameters()
        table = self._table(X, reset=True)
        y = _labels(y, table)
        self.classes_, codes = np.unique(y, return_inverse=True)
        weight = self._weights(sample_weight, X)
        if self.class_weight is not None:
            own = compute_sample_weight(self.class_weight, y)
            weight = own if weight is None else weight * own
        seen = codes if weight is None else codes[weight > 0]
        if len(np.unique(seen)) < 2:
            raise ValueError(
                "A classifier needs rows of two classes or more. Received: one class "
                f"only, {self.classes_[seen[0]]!r}."
            )
        self._fit_table(table, codes, len(self.classes_), weight, self._chosen_method())
        return self

    @available_if(_goes_on)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Goes on with new rows.

        The first call samples the units of a `"layer"` from its rows and learns
        what there is to know of the columns; later ones add rows to the sums
        behind the readouts and solve these again, exactly as if all rows had been
        there at once. So let the first rows be many and typical. After `fit`, which
        keeps no sums, it begins anew.

        Args:
            X, y, sample_weight: As for `fit`.
            classes: All labels there will be. Needed in the first call.

        Returns:
            Itself.
        """
        self._check_parameters()
        first = not hasattr(self, "stream_")
        if isinstance(self.class_weight, str):
            raise ValueError(
                '`class_weight="balanced"` needs all rows at once. Pass a dict to go '
                f"on with `partial_fit`. Received: {self.class_weight!r}"
            )
        if first and classes is None:
            classes = getattr(self, "classes_", None)
        if classes is None and first:
            raise ValueError(
                "The first call of `partial_fit` needs `classes`: all labels that "
                "there will be."
            )
        table = self._streamed_table(X)
        y = _labels(y, table)
        if first:
            self.classes_ = np.unique(classes)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"`y` has labels that are not among the classes: {unknown[:5]}. "
                f"Expected: {self.classes_}."
            )
        weight = self._weights(sample_weight, X)
        if self.class_weight is not None:
            own = compute_sample_weight(self.class_weight, y)
            weight = own if weight is None else weight * own
        codes = np.searchsorted(self.classes_, y)
        self._first_or_next(table, codes, len(self.classes_), weight)
        return self

    def decision_function(self, X):
        """Logits: `(n,)` of the second of two classes, else `(n, classes)`."""
        check_is_fitted(self)
        scores = self.model_.scores(self._table(X, reset=False))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X):
        """`(n, classes)` probabilities."""
        check_is_fitted(self)
        return self.model_.probabilities(self._table(X, reset=False))

    def predict(self, X):
        """`(n,)` labels."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class SwimRegressor(RegressorMixin, _SwimTable):
    """Regressor for tables; arguments and columns as for `SwimClassifier`.

    Example:

    >>> from keras_swim import SwimRegressor
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> model = SwimRegressor(method="layer", random_state=0)
    >>> bool(model.fit(x, x[:, 0] * x[:, 1]).score(x, x[:, 0] * x[:, 1]) > 0.99)
    True
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X, y, sample_weight=None):
        """Fits the model.

        Args:
            X: Data frame, or `(n, d)` array.
            y: `(n,)` or `(n, c)` numbers.
            sample_weight: `None` or `(n,)`.

        Returns:
            Itself.
        """
        self._check_parameters()
        table = self._table(X, reset=True)
        target = _numbers(y, table)
        self._flat = target.ndim == 1
        target = target.reshape(len(target), -1)
        weight = self._weights(sample_weight, X)
        self._fit_table(table, target, None, weight, self._chosen_method())
        return self

    @available_if(_goes_on)
    def partial_fit(self, X, y, sample_weight=None):
        """Goes on with new rows; see `SwimClassifier.partial_fit`.

        Args:
            X, y, sample_weight: As for `fit`.

        Returns:
            Itself.
        """
        self._check_parameters()
        table = self._streamed_table(X)
        target = _numbers(y, table)
        if not hasattr(self, "stream_"):
            self._flat = target.ndim == 1
        target = target.reshape(len(target), -1)
        self._first_or_next(table, target, None, self._weights(sample_weight, X))
        return self

    def predict(self, X):
        """`(n,)` or `(n, c)` predictions."""
        check_is_fitted(self)
        found = self.model_.scores(self._table(X, reset=False))
        return found[:, 0] if self._flat else found


def _labels(y, table):
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    _check_length(y, table)
    check_classification_targets(y)
    return y


def _numbers(y, table):
    from sklearn.utils import check_array

    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    y = check_array(y, ensure_2d=False, dtype=float, input_name="y")
    _check_length(y, table)
    return y


def _check_length(y, table):
    rows = len(next(iter(table.values())))
    if len(y) != rows:
        raise ValueError(
            "X and y must have as many rows. Found input variables with inconsistent "
            f"numbers of samples: {[rows, len(y)]}"
        )
