"""Evaluates recipes on facts to make a diagnosis. Pure functions: nothing here accesses the machine."""
