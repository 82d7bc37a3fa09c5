"""Whatever people pass as data -> checked batches and rows."""
