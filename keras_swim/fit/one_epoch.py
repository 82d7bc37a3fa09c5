"""A fit without epochs, as Keras' callbacks see it: one epoch of one batch."""

import keras


def begin(callbacks, model):
    """Tells callbacks that a fit begins; returns Keras' list of them."""
    told = keras.callbacks.CallbackList(
        callbacks, add_history=True, model=model, epochs=1, steps=1, verbose=0
    )
    told.on_train_begin()
    told.on_epoch_begin(0)
    told.on_train_batch_begin(0)
    return told


def end(told, logs, progress):
    """Adds the seconds to the logs, prints them, and tells callbacks of the end."""
    logs.update({f"seconds_{name}": s for name, s in progress.seconds.items()})
    logs["seconds"] = progress.total_seconds
    progress.say(_summary(logs))
    told.on_train_batch_end(0, logs)
    told.on_epoch_end(0, logs)
    told.on_train_end(logs)


def _summary(logs):
    parts = [
        f"{name}: {value:.4g}"
        for name, value in logs.items()
        if not name.startswith("seconds") and not name.endswith("temperature")
    ]
    return f"{logs['seconds']:.1f}s - " + " - ".join(parts)
