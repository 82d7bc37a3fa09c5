"""Builders: whole models that `swim_fit` can fit."""
