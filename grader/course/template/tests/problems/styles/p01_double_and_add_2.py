"""The half is added first."""


# TODO: a second correct program in yet another style
def double_and_add(x):
    return (x + 0.5) * 2
