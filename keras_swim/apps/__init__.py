"""The command line: folders of images in, a model and a report out."""
