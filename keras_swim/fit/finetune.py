"""FineTune: a callback for training on from a sampled start."""

import keras
import numpy as np

from keras_swim.fit.options import plain_options
from keras_swim.fit.prepare import open_data, open_validation
from keras_swim.fit.progress import Progress
from keras_swim.fit.resolve import Resolver


class FineTune(keras.callbacks.Callback):
    """Callback for `model.fit` after `swim_fit`.

    It judges the sampled start on the validation data, as epoch 0; warms the
    learning rate up; solves the readout again in closed form at the end of each
    epoch, for the features as they are then, with ridge and temperature chosen on
    the validation data; keeps the best weights, those of the start among them;
    and stops and goes back to these if the loss is not finite any more. So the
    model is never worse on the validation data than before.

    Args:
        x, y: The training data, as for `swim_fit`, to solve the readout with. Not
            a generator, which cannot be read more than once.
        validation_data: `(x, y)` or a data set.
        sample_weight: One weight a training row, or `None`.
        resolve: Whether to solve the readout again after each epoch.
        warmup_epochs: Number of epochs (or a fraction of one) in which the
            learning rate grows to its value. Not for learning rate schedules,
            which do that themselves.
        batch_size: Rows at a time for features.
        verbose: 0 or 1: whether to print a line an epoch.

    Attributes:
        records: A dict for the start and for each epoch: `epoch`, `loss` and
            `accuracy` (or `r2`) on the validation data after the epoch, and the
            same with `resolved_` after solving the readout.
        best: Of the weights that the model has in the end: their `epoch`,
            whether the readout was `resolved`, and their metrics.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 4)).astype("float32")
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(int)
    >>> model = keras.Sequential(
    ...     [SampledDense(40), keras.layers.Dense(2, activation="softmax")]
    ... )
    >>> history = swim_fit(model, x[:200], y[:200], seed=0, verbose=0)
    >>> model.compile("adam", "sparse_categorical_crossentropy")
    >>> tune = FineTune(x[:200], y[:200], (x[200:], y[200:]), verbose=0)
    >>> history = model.fit(
    ...     x[:200], y[:200], epochs=2, callbacks=[tune], verbose=0
    ... )
    >>> len(tune.records), tune.best["accuracy"] >= tune.records[0]["accuracy"]
    (3, True)
    """

    def __init__(
        self,
        x,
        y=None,
        validation_data=None,
        *,
        sample_weight=None,
        resolve=True,
        warmup_epochs=1.0,
        batch_size=None,
        verbose=1,
    ):
        super().__init__()
        if validation_data is None:
            raise ValueError(
                "`FineTune` needs `validation_data`: ridge, temperature and the best "
                "weights are chosen on it. Received: validation_data=None."
            )
        if not warmup_epochs >= 0:
            raise ValueError(
                f"`warmup_epochs` must be 0 or more. Received: {warmup_epochs!r}"
            )
        for data in (x, validation_data):
            if hasattr(data, "__next__"):
                raise ValueError(
                    "The data is read again after each epoch, and a generator can be "
                    "read only once. Pass arrays, a `tf.data.Dataset` or a "
                    "`keras.utils.PyDataset`."
                )
        self._data = x, y, sample_weight
        self._validation_data = validation_data
        self.resolve, self.warmup_epochs = resolve, float(warmup_epochs)
        self.batch_size, self.verbose = batch_size, verbose
        self.records: list[dict] = []
        self.best: dict = {}
        self._best_score = None
        self._best_weights = None
        self._resolver = None
        self._rate = None
        self._steps = 0
        self._failed = False
        self._tuned = None

    def on_train_begin(self, logs=None):
        self._resolver = self._make_resolver()
        self._failed = False
        if self._tuned is not self.model:
            # Weights of another model are of no use to this one.
            self.records, self.best = [], {}
            self._best_score = self._best_weights = None
            self._tuned = self.model
        self._start_warmup()
        if not self.records:
            judged = self._resolver.look()
            self.records.append({"epoch": 0, **judged.metrics})
            self._keep_if_best(judged, 0, resolved=False)
            self._say(f"start: {_line(judged.metrics)}")

    def on_train_batch_begin(self, batch, logs=None):
        if self._rate is None:
            return
        length = self.warmup_epochs * (self.params.get("steps") or 1)
        share = min(1.0, (self._steps + 1) / max(length, 1.0))
        self.model.optimizer.learning_rate = self._rate * share
        self._steps += 1
        if share == 1.0:
            self._rate = None

    def on_train_batch_end(self, batch, logs=None):
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(float(loss)):
            self._failed = True
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        if self._failed:
            return
        judged = self._resolver.look()
        record = {"epoch": epoch + 1, **judged.metrics}
        text = f"epoch {epoch + 1}: {_line(judged.metrics)}"
        self._keep_if_best(judged, epoch + 1, resolved=False)
        if self.resolve:
            judged = self._resolver.solve()
            self._keep_if_best(judged, epoch + 1, resolved=True)
            found = {f"resolved_{name}": v for name, v in judged.metrics.items()}
            record.update(found)
            text += f" - readout solved again: {_line(judged.metrics)}"
            if logs is not None:
                logs.update({f"val_{name}": value for name, value in found.items()})
        self.records.append(record)
        self._say(text)

    def on_train_end(self, logs=None):
        self.restore()
        if self._failed:
            self._say("the loss was not finite: back to the best weights")

    def restore(self):
        """Gives the model the best weights so far, and its learning rate.

        Keras does not tell callbacks of Ctrl-C: call this after one.
        """
        if self._rate is not None:
            self.model.optimizer.learning_rate = self._rate
        # Through `self.model`, so that JAX's copy of the weights follows.
        if self._best_weights is not None:
            self.model.set_weights(self._best_weights)

    def _keep_if_best(self, judged, epoch, resolved):
        if self._best_score is None or judged.score > self._best_score:
            self._best_score = judged.score
            self.best = {"epoch": epoch, "resolved": resolved, **judged.metrics}
            self._best_weights = self.model.get_weights()

    def _start_warmup(self):
        self._steps, self._rate = 0, None
        optimizer = self.model.optimizer
        fixed = not isinstance(
            getattr(optimizer, "_learning_rate", None),
            keras.optimizers.schedules.LearningRateSchedule,
        )
        if self.warmup_epochs and fixed:
            self._rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))

    def _make_resolver(self):
        model = self.model
        options = plain_options(model, self.batch_size)
        x, y, weight = self._data

        def training():
            return open_data(model, x, y, weight, None, 0.0)[0]

        def validation():
            return open_validation(model, self._validation_data)

        return Resolver(model, training, validation, options, Progress(0, stages=1))

    def _say(self, text):
        Progress(self.verbose, stages=1).say(text)


def _line(metrics):
    return " - ".join(f"val_{name}: {value:.4f}" for name, value in metrics.items())
