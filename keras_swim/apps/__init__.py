"""Programs: the command line and the report. Nothing in the package imports them."""
