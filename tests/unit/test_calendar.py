"""Jobs that have a date."""

from distributed_grid.kernel.calendar import Calendar
from distributed_grid.model.ids import JobId

JOB, OTHER = JobId("job"), JobId("other")


def test_a_date_is_told_once_when_it_has_come():
    calendar = Calendar()
    calendar.add(JOB, 5)
    calendar.add(JOB, 5)
    assert JOB in calendar
    assert calendar.due(4) == []
    assert calendar.due(5) == [JOB]
    assert calendar.due(6) == []
    assert JOB not in calendar


def test_a_later_word_replaces_an_earlier_one():
    calendar = Calendar()
    calendar.add(JOB, 5)
    calendar.add(JOB, 7)
    assert calendar.due(6) == []
    assert calendar.due(7) == [JOB]


def test_what_is_forgotten_is_not_told_and_takes_no_room():
    calendar = Calendar()
    for number in range(100):
        calendar.add(JobId(str(number)), 5)
    calendar.add(OTHER, 5)
    for number in range(100):
        calendar.forget(JobId(str(number)))
    calendar.forget(JOB)
    assert len(calendar._dates) < 10
    assert calendar.due(5) == [OTHER]
