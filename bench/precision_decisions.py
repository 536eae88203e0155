"""What a real model decides, from its outputs: labels, decoded text, detected boxes, by the rules and thresholds of the
packages that the models are from. Two decisions are the same where labels and texts are equal, and boxes are as many, of the
same labels, and within a pixel of each other. Models that give features decide nothing.
"""

import numpy as np
from scipy import ndimage


def text(scores):
    """The tokens of connectionist temporal classification: the best of each step, without repetitions and blanks."""
    best = np.asarray(scores).argmax(-1).ravel()
    return [int(one) for place, one in enumerate(best) if one and (place == 0 or one != best[place - 1])]


def overlap(box, others):
    """Intersection over union of a box (x1, y1, x2, y2) with others."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.clip(sides, 0, None).prod(1)
    areas = (others[:, 2:] - others[:, :2]).prod(1)
    return shared / np.maximum((box[2:] - box[:2]).prod() + areas - shared, 1e-9)


def detected(boxes, scores, labels, threshold):
    """The boxes above a threshold, of those that overlap the best; of the best half where none is above it."""
    kept, order = [], np.argsort(-scores, kind="stable")
    threshold = min(threshold, scores.max() / 2)
    for place in order[scores[order] >= threshold]:
        if not kept or overlap(boxes[place], boxes[kept]).max() < 0.45:
            kept.append(place)
    kept = sorted(kept, key=lambda place: (labels[place], *boxes[place].round()))
    return [int(labels[place]) for place in kept], boxes[kept]


def corners(middles, sizes):
    return np.concatenate([middles - sizes / 2, middles + sizes / 2], 1)


def photo(output):
    """nudenet: middles, sizes and the scores of 18 labels, for each anchor."""
    rows = np.asarray(output, np.float64)[0].T
    labels = rows[:, 4:].argmax(1)
    return detected(corners(rows[:, :2], rows[:, 2:4]), rows[:, 4:].max(1), labels, 0.2)


def detect(output):
    """ddddocr: offsets from the places of three grids, the logarithms of sizes, and two scores."""
    rows = np.asarray(output, np.float64)[0]
    grids = [np.stack(np.meshgrid(range(416 // stride), range(416 // stride)), -1).reshape(-1, 2) for stride in (8, 16, 32)]
    strides = np.concatenate([np.full((len(grid), 1), stride) for grid, stride in zip(grids, (8, 16, 32))])
    middles, sizes = (rows[:, :2] + np.concatenate(grids)) * strides, np.exp(rows[:, 2:4]) * strides
    return detected(corners(middles, sizes), rows[:, 4] * rows[:, 5], np.zeros(len(rows)), 0.1)


def page(output):
    """PP-OCR's detection: regions above 0.3 whose mean is above 0.5."""
    map_of = np.asarray(output, np.float64)[0, 0]
    regions, count = ndimage.label(map_of > 0.3, np.ones((3, 3)))
    boxes = [[columns.start, rows.start, columns.stop, rows.stop] for place, (rows, columns) in enumerate(
        ndimage.find_objects(regions)) if map_of[rows, columns][regions[rows, columns] == place + 1].mean() > 0.5]
    return [0] * len(boxes), np.array(boxes, np.float64).reshape(-1, 4)


def pitch(outputs):
    """basic-pitch: where a note begins, a peak in time above 0.5 of which the note itself is above 0.3."""
    onset, note = np.asarray(outputs[0])[0], np.asarray(outputs[1])[0]
    before, behind = np.roll(onset, 1, 0), np.roll(onset, -1, 0)
    return np.argwhere((onset > 0.5) & (note > 0.3) & (onset >= before) & (onset >= behind)).tolist()


def decision(name, kind, outputs):
    """Labels and boxes; none of a model that gives features."""
    first = np.asarray(outputs[0])
    nothing = np.zeros((0, 4))
    if kind in ("audio", "light", "spectrogram"):
        return None
    if kind in ("photo", "detect", "page"):
        return {"photo": photo, "detect": detect, "page": page}[kind](first)
    if kind == "pitch":
        return pitch(outputs), nothing
    if kind == "captcha" or name.endswith("rec_infer"):
        return text(first), nothing
    if kind == "letters":
        return [np.asarray(one).argmax(-1).tolist() for one in outputs], nothing
    if kind == "arabic":
        return first.tolist(), nothing
    if kind in ("voice", "voice_state") or first.size == 1:
        return [bool(first.ravel()[0] > 0.5)], nothing
    return [int(first.argmax())], nothing


def same(one, other):
    """Whether two decisions are the same."""
    (labels, boxes), (others, other_boxes) = one, other
    return labels == others and boxes.shape == other_boxes.shape and bool((np.abs(boxes - other_boxes) <= 1).all())
