"""The probe of problem 11: a clipped tree and the reported norm, compiled. Runs in workers."""

from grader.authoring import Arrays, Reading, Subject, given, named
from grader.problem import Case


def clipping(subject: Subject, case: Case) -> Reading:
    """The clipped leaves by name, and the reported norm."""

    def program(leaves: Arrays) -> Arrays:
        kernels, biases = leaves["kernel"], leaves["bias"]
        blocks = [{"kernel": kernels[layer], "bias": biases[layer]} for layer in range(len(kernels))]
        gradients = {"embed": leaves["embedding"], "blocks": blocks, "scale": leaves["scale"]}
        clipped, norm = subject.call("clip_by_global_norm", gradients, case.values["max_norm"])
        return {**named(norm, "norm"), **named(clipped, "clipped")}

    names = ("embedding", "kernel", "bias", "scale")
    return subject.run(program, case, {name: given(case, name) for name in names})


PROBES = {"clipping": clipping}
