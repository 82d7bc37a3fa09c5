"""Keras networks whose hidden layers are sampled and whose last one is solved."""

from keras_swim import _command  # noqa: F401  (first: it silences TensorFlow)
from keras_swim._version import __version__
from keras_swim.build.boost import SwimBoost
from keras_swim.build.heads import SwimHead
from keras_swim.build.mlp import SwimMLP
from keras_swim.build.operators import SwimOperator
from keras_swim.core.readout import ReadoutState
from keras_swim.fit.finetune import FineTune
from keras_swim.fit.forget import swim_forget
from keras_swim.fit.provenance import pair_report
from keras_swim.fit.swim_fit import swim_fit
from keras_swim.fit.swim_select import swim_select
from keras_swim.fit.tuning import fine_tune
from keras_swim.fit.uncertainty import Uncertainty
from keras_swim.fit.update import swim_update
from keras_swim.layers.canonical import (
    Canonicalize,
    GalileanFrame,
    PeriodicShift,
    RemoveMean,
)
from keras_swim.layers.sampled_dense import SampledDense

__all__ = [
    "Canonicalize",
    "FineTune",
    "GalileanFrame",
    "PeriodicShift",
    "ReadoutState",
    "RemoveMean",
    "SampledDense",
    "SwimBoost",
    "SwimClassifier",
    "SwimHead",
    "SwimMLP",
    "SwimOperator",
    "SwimRegressor",
    "Uncertainty",
    "__version__",
    "fine_tune",
    "pair_report",
    "swim_fit",
    "swim_forget",
    "swim_select",
    "swim_update",
]

# They need scikit-learn, which plain use must not import.
_ESTIMATORS = ("SwimClassifier", "SwimRegressor")


def __getattr__(name):
    if name in _ESTIMATORS:
        from keras_swim.apps import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'keras_swim' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_ESTIMATORS])
