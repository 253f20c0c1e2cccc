"""A verdict, told to a person or to a program."""
