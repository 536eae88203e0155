"""Measures pairs with one number of elements and one of threads, and prints a JSON line for each: ours, memcpy and
every peer that has the pair, in turn, in this process. peers.py runs this in the environment that it has made."""

import argparse
import gc
import json
import statistics

import numpy

import element_types
import libraries
from memory import Arena, Peers, pack, unpack

# Rounds of everybody once, whose medians are quoted. Odd, so that a median is a round that was.
ROUNDS = 7

# Who is so many times slower than we are when everyone warms up is not timed again: no noise brings that near, and it
# would take most of the time.
FAR = 4

# Who takes longer for each of a few elements, in seconds, is timed on no more: that is ten thousand times slower than
# we are, and the whole would take it minutes.
SLOWEST = 1e-6

# A shorter stretch is repeated until it takes so long, in seconds.
STRETCH = 500e-6

# A pair that moves this much is measured in memory: before each stretch the caches are filled with something else.
IN_MEMORY = 4 << 20
EVICT = 96 << 20

# Elements after which a source repeats, and of which the results are compared. A multiple of every packing.
PERIOD = 1 << 16

# A call from Python costs what a cast of so few elements costs. Whole bytes in every type; with scales, whole blocks.
FEW, FEW_SCALED = 8, 64

# And of so many, little of what a cast of them costs is the call; torchao's, with scales, cost a millisecond.
SAMPLE, SAMPLE_SCALED = 1 << 10, 1 << 14


def repeats(seconds):
    """How often makes a stretch; it is warm then. And about how long one takes."""
    repeat = 1
    while True:
        time = seconds(repeat)
        if time >= STRETCH or repeat >= 1 << 20:
            return repeat, time / repeat
        # Eight times as many at most, since the first ones are cold.
        repeat = int(repeat * min(max(STRETCH / max(time, 1e-9) * 1.2, 1.5), 8)) + 1


class Contestant:
    """A library that casts, and the seconds of each round."""

    def __init__(self, seconds, few=None, warm_time=None):
        self.seconds, self.few = seconds, few
        self.repeat, self.warm_time = (0, warm_time) if warm_time else repeats(seconds)
        self.few_repeat, self.warm_cost = repeats(few) if few else (0, 0)
        self.times, self.costs = [], []

    def settle(self, slow):
        """Takes the warm time for the result if that is slower than `slow`. Whether it did."""
        if self.warm_time - self.warm_cost <= slow:
            return False
        self.times, self.costs = [self.warm_time], [self.warm_cost]
        return True

    def run(self):
        self.times.append(self.seconds(self.repeat) / self.repeat)
        if self.few:
            self.costs.append(self.few(self.few_repeat) / self.few_repeat)

    def net(self):
        """The median without the cost of the call, and with it. Never less than a tenth of the whole: what is left of a
        difference that small is noise."""
        whole = statistics.median(self.times)
        cost = statistics.median(self.costs) if self.costs else 0
        return max(whole - cost, whole / 10), whole


class Measurement:
    def __init__(self, library, names, elements, threads):
        self.peers = Peers(library)
        self.elements, self.threads = elements, threads
        most = elements * 8
        # Places in pages of their own: two to cast between, two for types that a peer does not pack, one for scales.
        arenas = [Arena(size) for size in (most, most, elements, elements, elements)]
        self.place = libraries.Place(*arenas)
        self.copied = libraries.Place(Arena(most), Arena(most), None, None, None)
        self.evicted = Arena(EVICT)
        self.ours = libraries.Rust(self.peers, "ours", threads)
        self.memcpy = self.peers.function("memcpy")
        self.libraries = libraries.load(names, self.peers, threads)

    def fill(self, pair):
        """Numbers spread over what both types hold, as weights and activations are, in place. Gives how many differ."""
        source, target = pair.source, pair.target
        limit = min(source.limit, target.limit)
        least = -limit if source.signed and target.signed else 0
        elements = min(self.elements, PERIOD)
        if pair.scale:
            # Quotients stay in the type: the scales are 1 to 2, and nothing is rounded up to 8.
            limit = pair.quantized.limit * 0.9
            least = -limit
            libraries.fill(pair, self.place, self.elements)
        numbers = numpy.random.default_rng(1).uniform(least, limit, PERIOD).astype(numpy.float32)
        if source.name == "bool":
            numbers[::2] = 0
        loose = numbers.astype(libraries.numpy_type(source))
        codes = loose.view(numpy.uint8)
        packed = pack(codes, source.bits) if source.bits < 8 else codes
        for place, period in ((self.place.source, packed), (self.place.loose_source, codes)):
            whole = place.bytes
            if place is self.place.source:
                whole = whole[: source.bytes(self.elements)]
            elif source.bits >= 8:
                continue
            for start in range(0, whole.size, period.size):
                part = whole[start : start + period.size]
                part[:] = period[: part.size]
        return elements

    def codes(self, library, pair, elements):
        """The results of a library, one to a byte or as they are."""
        target = pair.target
        self.place.target.bytes[: target.bytes(elements)] = 0xA5
        library.result(pair, self.place, elements)
        if library.loose(target):
            return self.place.loose_target.bytes[:elements] & ((1 << target.bits) - 1)
        data = self.place.target.bytes[: target.bytes(elements)]
        if target.bits < 8:
            return unpack(data, target.bits, elements)
        return data.copy().view(f"u{target.bits // 8}")

    def pair(self, pair):
        source, target = pair.source, pair.target
        elements = self.fill(pair)
        expected = self.codes(self.ours, pair, elements)
        moved = source.bytes(self.elements) + target.bytes(self.elements)
        evicts = moved >= IN_MEMORY

        half = moved // 2
        addresses = self.copied.source.address, self.copied.target.address
        contestants = {
            "ours": Contestant(self.ours.cast(pair, self.place, self.elements)),
            "memcpy": Contestant(lambda repeat: self.memcpy(2, 2, self.threads, *addresses, half, repeat)),
        }
        differs = {}
        for name, library in self.libraries.items():
            seconds = library.cast(pair, self.place, self.elements)
            if seconds is None:
                continue
            size = min(SAMPLE_SCALED, self.elements) if pair.scale else SAMPLE
            sample = library.cast(pair, self.place, size)(1) / size
            if sample > SLOWEST:
                contestants[name] = Contestant(seconds, warm_time=sample * self.elements)
                continue
            other = int((self.codes(library, pair, elements) != expected).sum())
            if other:
                differs[name] = other / elements
            few = FEW_SCALED if pair.scale else FEW
            few = library.cast(pair, self.place, few) if library.calls_cost and not evicts else None
            contestants[name] = Contestant(seconds, few)

        slow = contestants["ours"].warm_time * FAR
        order = [one for one in contestants.values() if not one.settle(slow)]
        for _ in range(ROUNDS):
            # Each round starts with another library.
            order.append(order.pop(0))
            for one in order:
                if evicts:
                    self.peers.touch(self.evicted)
                one.run()

        speed = {name: [moved / time / 1e9 for time in one.net()] for name, one in contestants.items()}
        row = {
            "from": source.name,
            "to": target.name,
            **({"scale": pair.scale} if pair.scale else {}),
            "ours": speed.pop("ours")[0],
            "memcpy": speed.pop("memcpy")[0],
            "peers": {name: net for name, (net, _) in speed.items()},
        }
        if not evicts:
            row["with_calls"] = {name: whole for name, (_, whole) in speed.items() if self.libraries[name].calls_cost}
        if differs:
            row["differs"] = differs
        return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--libraries", required=True)
    parser.add_argument("--elements", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--pairs", required=True)
    options = parser.parse_args()
    gc.disable()
    measurement = Measurement(options.library, options.libraries.split(","), options.elements, options.threads)
    print(json.dumps({"isa": measurement.peers.backend()}), flush=True)
    for pair in element_types.parse_pairs(options.pairs):
        print(json.dumps(measurement.pair(pair)), flush=True)


if __name__ == "__main__":
    main()
