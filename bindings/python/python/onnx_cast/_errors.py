"""The exception of what the library refuses, which the native module raises too."""

from __future__ import annotations

from typing import Any


class CastError(ValueError):
    """The library refuses a cast; the text says what is wrong, where, and what is expected.

    Objects of an unsupported kind raise ``TypeError``, and failures of the system ``OSError``.

    Attributes
    ----------
    parameter : str or None
        The parameter that is refused, as the function names it.
    tensor : str or None
        The name of the tensor, in a file of several.
    element : int or None
        The index of the first such element, in the flattened tensor.
    value : object
        The value that is refused: the element's or the parameter's.

    Each is ``None`` if it is unknown, or if the error is not about one.

    Examples
    --------
    >>> try:
    ...     onnx_cast.cast(np.array(["1", "x"]), "int8")
    ... except onnx_cast.CastError as error:
    ...     error.parameter, error.element, error.value
    ('x', 1, 'x')
    """

    __module__ = "onnx_cast"

    def __init__(
        self,
        text: str,
        *,
        parameter: str | None = None,
        tensor: str | None = None,
        element: int | None = None,
        value: Any = None,
    ) -> None:
        super().__init__(text)
        self.parameter = parameter
        self.tensor = tensor
        self.element = element
        self.value = value

    def of_tensor(self, name: str) -> CastError:
        """The same error with the name of a tensor in its text. An empty name changes nothing."""
        if not name:
            return self
        return CastError(
            f"tensor `{name}`: {self}",
            parameter=self.parameter,
            tensor=name,
            element=self.element,
            value=self.value,
        )
