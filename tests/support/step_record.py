"""Reads the simulator's record (CUSIM_RECORD) of a training run whose ranges (NVTX, support/nvtx_listener.c) are in it
as marks: which calls the host made in each step, which operations ran for it and when, and in which range each was
queued, also those of a recorded step."""
import re

CALL = re.compile(r"call thread=(\d+) (\w+)(?: stream=(\d+))?(?: device=\d+)?( waits)?( allocates)?(?: (.*))?$")
QUEUE = re.compile(r"queue stream=(\d+)(?: node=(\d+))? (.*)$")
RUN = re.compile(r"run stream=(\d+) from=([\d.]+) to=([\d.]+)(?: node=(\d+))? (.*)$")


class Call:
    def __init__(self, thread, name, stream, waits, allocates, details, path):
        self.thread, self.name, self.stream, self.path = thread, name, stream, path
        self.waits, self.allocates, self.details = waits, allocates, details

    @property
    def event(self):
        match = re.search(r"\bevent=(\d+)", self.details)
        return int(match[1]) if match else None

    def __str__(self):
        return f"{self.name} by thread {self.thread} in {' / '.join(self.path) or 'no range'}"


class Operation:
    """`stream`: where it was queued, also of one that ran inside a graph. `path`: ranges, from the step's inwards."""

    def __init__(self, stream, name, path):
        self.stream, self.name, self.path = stream, name, path
        self.start = self.end = None        # of the virtual clock; None: it has not run


class Step:
    """`calls`: all that any thread made from the beginning of the step's range to that of the next one. `queued`: the
    main thread's calls that put the step's work on streams, here or in the recording that is replayed."""

    def __init__(self, number):
        self.number, self.calls, self.queued, self.operations = number, [], [], []
        self.replayed = False

    def within(self, *path):
        """Operations queued in a range: of the step's own, or of one inside."""
        return [o for o in self.operations if o.path[:len(path)] == path]

    def ranges(self):
        return {o.path for o in self.operations} | {c.path for c in self.queued}


class _Recording:
    def __init__(self):
        self.nodes, self.calls = [], []


class Record:
    MAIN = "1"

    def __init__(self, path):
        self.steps = []
        self._path, self._waiting, self._current = [], {}, None
        self._recording, self._by_parity = None, {}
        with open(path) as lines:
            for line in lines:
                self._read(line.rstrip("\n"))
        if self._path:
            raise ValueError(f"ranges that do not end: {self._path}")

    def step(self, number):
        return next(step for step in self.steps if step.number == number)

    # ---- lines

    def _read(self, line):
        kind = line.split(" ", 1)[0]
        if kind == "mark":
            self._read_mark(line.split(" ", 2)[1:])
        elif kind == "call":
            self._read_call(*CALL.match(line).groups())
        elif kind == "queue":
            self._read_queue(*QUEUE.match(line).groups())
        elif kind == "run":
            self._read_run(*RUN.match(line).groups())

    def _read_mark(self, words):
        if words[0] == "push":
            thread, depth, text = words[1].split(" ", 2)
            if thread != "1" or int(depth) != len(self._path):
                raise ValueError(f"range {text}: of thread {thread}, depth {depth} in {self._path}")
            if depth == "0":
                self.steps.append(Step(int(text.split()[1])))
            if text == "recording":
                self._recording = self._by_parity[self.steps[-1].number % 2] = _Recording()
            self._path.append(text)
        elif words[0] == "pop":
            if self._path.pop() == "recording":
                self._recording = None

    def _inside(self):
        """Where the main thread is, as a part of the step: of a recording, where in the recorded step."""
        return tuple(text for text in self._path[1:] if text != "recording")

    def _read_call(self, thread, name, stream, waits, allocates, details):
        main = thread == self.MAIN
        call = Call(thread, name, stream, bool(waits), bool(allocates), details or "", self._inside() if main else ())
        if not self.steps:
            return
        step = self.steps[-1]
        step.calls.append(call)
        if main and self._path:
            (self._recording.calls if self._recording else step.queued).append(call)

    def _read_queue(self, stream, node, name):
        if not self.steps:
            owner = None
        else:
            owner = self.steps[-1] if self._path else Step(0)
        operation = Operation(stream, name, self._inside())
        if node is not None:
            assert int(node) == len(self._recording.nodes), "nodes are numbered as they are queued"
            self._recording.nodes.append(operation)
            return
        if name == "graph" and owner is not None:
            self._launch(owner, operation)
        elif owner is not None:
            owner.operations.append(operation)
        self._waiting.setdefault(stream, []).append(operation)

    def _launch(self, step, graph):
        recording = self._by_parity[step.number % 2]
        step.replayed = True
        graph.nodes = [Operation(o.stream, o.name, o.path) for o in recording.nodes]
        step.operations += graph.nodes
        step.queued = step.queued + recording.calls

    def _read_run(self, stream, start, end, node, name):
        first = self._waiting[stream][0]
        operation = first.nodes[int(node)] if node is not None else self._waiting[stream].pop(0)
        if operation.name != name:
            raise ValueError(f"{name} ran where {operation.name} was queued")
        operation.start, operation.end = float(start), float(end)


def span(operations):
    """(first start, last end) of operations that ran; None without any."""
    ran = [o for o in operations if o.start is not None]
    return (min(o.start for o in ran), max(o.end for o in ran)) if ran else None


def overlap(a, b):
    """Whether two spans share more than an end."""
    return a is not None and b is not None and max(a[0], b[0]) < min(a[1], b[1])
