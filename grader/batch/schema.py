"""The tables of a results database, and the statements that update those of the version before."""

VERSION = "5"

FACTS = "create table if not exists facts (name text primary key, value text not null);"
# An attempt is one submission of a learner for a problem; none is ever deleted. `counted` says which of them counts,
# and `decided` what somebody decided of the mark: 'hand' is that mark, 'least' no lower one, 'kept' that mark for that
# attempt. `marks` are those that the last batch ended with, and `changes` lists those that changed without a new
# submission. Of a regrade with a `check_name`, only that check counts. `known` are the solutions of --known as
# `similarity.py` reads them. `sent` has the marks that a course system was sent, by its address with the course, and
# its own numbers; `comments` the digests of comments.
TABLES = """
create table if not exists attempts (
    learner text not null, problem text not null, attempt text not null, number integer not null, key text not null,
    file text not null, submitted text not null,
    marked_late integer not null, verdict text not null, score integer not null,
    points integer not null, misconception text not null,
    message text not null, notes text not null, sources text not null,
    report text not null, members text not null default '', primary key (learner, problem, attempt)
);
create table if not exists counted (
    learner text not null, problem text not null, attempt text not null, adjusted real not null, late text not null,
    times text not null default '', excused integer not null default 0, primary key (learner, problem)
);
create table if not exists decided (
    learner text not null, problem text not null, kind text not null, mark real not null, attempt text not null,
    because text not null, primary key (learner, problem)
);
create view if not exists records as
    select attempts.*, coalesce(decided.mark, counted.adjusted) as adjusted, counted.late, counted.times,
        counted.excused,
        coalesce(decided.because, '') as decided,
        (select count(*) from attempts a where (a.learner, a.problem) = (attempts.learner, attempts.problem)
            and a.attempt != '')
            as attempts
    from attempts join counted using (learner, problem, attempt)
    left join decided on (decided.learner, decided.problem) = (attempts.learner, attempts.problem) and (
        decided.kind = 'hand' or (decided.kind = 'least' and decided.mark > counted.adjusted)
        or (decided.kind = 'kept' and decided.attempt = attempts.attempt)
    );
create table if not exists marks (
    learner text not null, problem text not null, attempt text not null, mark real not null, verdict text not null,
    primary key (learner, problem)
);
create table if not exists sent (
    course text not null, assignment text not null, user text not null, points real not null,
    primary key (course, assignment, user)
);
create table if not exists comments (
    course text not null, assignment text not null, user text not null, digest text not null,
    primary key (course, assignment, user)
);
create table if not exists changes (
    number integer primary key, at text not null, learner text not null, problem text not null,
    verdict_before text not null,
    mark_before real not null, verdict_after text not null, mark_after real not null, because text not null
);
create table if not exists learners (
    learner text primary key, ids text not null, canvas text not null, section text not null default ''
);
create table if not exists known (problem text not null, name text not null, sequences text not null);
create table if not exists unused (learner text not null, file text not null, reason text not null);
create table if not exists regrades (
    number integer primary key, at text not null, learner text not null, problem text not null, attempt text not null,
    because text not null, verdict_before text not null, score_before integer not null, verdict_after text,
    score_after integer,
    check_name text not null default ''
);
create table if not exists joins (
    number integer primary key, at text not null, learner text not null, ids text not null, joined text not null,
    because text not null
);
"""
# By version, the statements that make the next one of it.
MIGRATIONS = {
    "2": """
drop view records;
alter table attempts add column members text not null default '';
alter table counted add column times text not null default '';
alter table learners add column section text not null default '';
update facts set value = '3' where name = 'schema';
""",
    "3": """
drop view if exists records;
update facts set value = '4' where name = 'schema';
""",
    "4": """
alter table regrades add column check_name text not null default '';
drop view if exists records;
alter table counted add column excused integer not null default 0;
delete from facts where name = 'deadlines' and value like 'due %';
update facts set value = '5' where name = 'schema';
""",
}
_BY_SLOT = ("attempts", "counted", "decided", "marks")
WITH_A_LEARNER = (*_BY_SLOT, "changes", "regrades", "unused", "learners", "joins")
TO_ADD = (*WITH_A_LEARNER, "sent", "comments")
WITH_AN_ATTEMPT = (*_BY_SLOT, "regrades")
# The attempts of the old name come before those of the new one. Of an attempt that both have, one is left.
MOVING = (
    """update attempts set number = number + (
        select coalesce(max(number), 0) from attempts old where old.learner = attempts.learner and old.problem = :old
    ) where problem = :new""",
    *(f"update or ignore {table} set problem = :new where problem = :old" for table in _BY_SLOT),
    *(f"delete from {table} where problem = :old" for table in _BY_SLOT),
    *(f"update {table} set problem = :new where problem = :old" for table in ("changes", "regrades", "known")),
    *(
        f"update or replace facts set name = '{fact}:' || :new where name = '{fact}:' || :old"
        for fact in ("semantics", "points")
    ),
)
RENAMING = (
    """update attempts set number = number + (
        select coalesce(max(number), 0) from attempts old where old.learner = :old and old.problem = attempts.problem
    ) where learner = :new""",
    """delete from counted where learner = :new and exists (
        select 1 from counted old where old.learner = :old and old.problem = counted.problem
            and old.adjusted > counted.adjusted
    )""",
    *(f"update or ignore {table} set learner = :new where learner = :old" for table in _BY_SLOT),
    *(f"delete from {table} where learner = :old" for table in (*_BY_SLOT, "learners")),
    *(f"update {table} set learner = :new where learner = :old" for table in ("changes", "regrades", "unused")),
    "update joins set joined = :new where joined = :old",
)
