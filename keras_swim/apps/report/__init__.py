"""The report: a fitted model and its data in, one HTML page out."""
