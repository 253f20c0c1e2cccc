"""Whether a task of changes is sound: each fault alone is one, its change is right without it, a good test counts, and
cheats are refused."""

from collections.abc import Iterator

from grader.changes import drawing, testing
from grader.changes.change import Change, bases
from grader.changes.drawing import Plan, Proofs
from grader.changes.reviewing import MISTAKE, RUN, descriptions
from grader.course import catalog, imports, tasks
from grader.course.findings import Finding, finding, of_forgeries, solution
from grader.isolation.sandbox import Workers
from grader.practice.hunts import Hunt
from grader.problem import Problem
from grader.task import Review

SEEDS = ("b", "c")  # of the changes that are drawn


def verify(task: Review, workers: Workers) -> Iterator[Finding]:
    """Yields what was found, in order, for the descriptions, for changes of each problem with their faults, and for
    each forgery. Raises CourseError and UsageError."""
    problems = drawing.problems(task)
    texts = descriptions(task)
    missing = ", ".join(
        f"{problem.name} {style}"
        for problem in problems
        for style in bases(problem)
        if not texts.get(problem.name, {}).get(style.removesuffix(".py"))
    )
    complaint = f"no description says what becomes of {missing}"
    yield finding("each style has a description", sound=not missing, complaint=complaint)
    with Proofs(workers) as proofs:
        for seed in SEEDS:
            yield from _of_change(task, drawing.draw(problems, (), seed, proofs.is_fault), proofs)
        yield from of_forgeries(task)
        for path in tasks.forgeries(task):
            yield of_forgery(path.name, catalog.text_of(path), proofs)


def _of_change(task: Review, plan: Plan, proofs: Proofs) -> Iterator[Finding]:
    """Yields what is found about a change: its size, whether it is right without its faults, and each fault."""
    change = plan.change()
    said = f"change {plan.seed}: {change.size} lines in {len(change.hunks)} hunks, {len(change.faults)} faults"
    yield finding(said, sound=drawing.LEAST <= change.size <= drawing.MOST, complaint=f"{said}: too short or too long")
    for file in change.files:
        said = f"{file.name} becomes {file.new}, and"
        yield finding(f"{said} passes without its faults", sound=proofs.is_right(file), complaint=f"{said} fails")
    yield from (of_fault(task, plan, change, number, proofs) for number in change.faults)
    faulty = len(change.faults)
    for careless, mistakes in (("calling all sound", faulty), ("accusing all", len(change.hunks) - faulty)):
        points = MISTAKE * mistakes + RUN
        reached = task.standard(points) if mistakes else ""  # with no mistake, the change does not count
        said = f"change {plan.seed}, {careless}: {points} points, {reached or 'in no class'}"
        yield finding(said, sound=not reached)


def of_fault(task: Review, plan: Plan, change: Change, number: int, proofs: Proofs) -> Finding:
    """Returns what is found about a fault, which has failed the grader: the task's own test of the problem must
    count."""
    fault = change.faults[number]
    near = [sister.broken for sister in plan.sisters_of(fault)]
    test = testing.of_text(fault.problem, f"test_{number}.py", own_test(task, fault.problem))
    judged = testing.judge(fault.problem, test, fault.broken, near, proofs.workers)
    return finding(f"{fault.problem.label}, {fault.misconception.name!r}: {judged.says}", sound=judged.counts)


def own_test(task: Review, problem: Problem) -> str:
    """Returns the task's own test of a problem, in which nothing is spared. Raises UsageError."""
    return catalog.text_of(solution(task, f"{problem.name}.py"))


def of_forgery(name: str, text: str, proofs: Proofs) -> Finding:
    """Returns what is found about a test that cheats: on the fault FAULT of the problem PROBLEM, it must be refused for
    the reason that its REFUSED names."""
    problem = catalog.find(imports.constant(text, "PROBLEM"))
    idea = imports.constant(text, "FAULT")
    fault = next(hunt for hunt in drawing.hunts_of(problem) if hunt.misconception.name == idea)
    near = [sister.broken for sister in _sisters(fault, proofs)]
    judged = testing.judge(problem, testing.of_text(problem, name, text), fault.broken, near, proofs.workers)
    is_refused = not judged.counts and imports.constant(text, "REFUSED") in judged.says
    return finding(f"{name}: {judged.says}", sound=is_refused)


def _sisters(fault: Hunt, proofs: Proofs) -> list[Hunt]:
    """Returns the first sisters of a fault that are faults."""
    found: list[Hunt] = []
    for sister in drawing.sisters(fault):
        if len(found) < drawing.MOST_SISTERS and proofs.is_fault(sister):
            found.append(sister)
    return found
