"""Operations on device memory. Fills and copies are enqueued on the kernels' stream, so they run in order with them."""

from typing import Any

from numpy.typing import NDArray


class DeviceMemory:
    """Allocates, fills, copies and reads device memory. Only reading waits for the device.

    Waiting takes long on a GPU that other programs use, because the device gives each program a share of its time.

    Args:
        runtime: CuPy's ``cuda.runtime``.
        stream: CUDA handle (cudaStream_t) of the stream on which kernels run.
    """

    def __init__(self, runtime: Any, stream: int) -> None:
        self._runtime, self._stream = runtime, stream
        self._sent: list[NDArray[Any]] = []

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes of new device memory."""
        return int(self._runtime.malloc(size))

    def free(self, pointer: int) -> None:
        self._runtime.free(pointer)

    def fill(self, pointer: int, byte: int, size: int) -> None:
        self._runtime.memsetAsync(pointer, byte, size, self._stream)

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy `size` bytes between addresses in device memory."""
        self._runtime.memcpyAsync(to, source, size, self._runtime.memcpyDeviceToDevice, self._stream)

    def write(self, to: int, values: NDArray[Any]) -> None:
        """Copy a contiguous host array to device memory. The array must not change before the device has copied it."""
        self._sent.append(values)  # keeps its memory allocated
        kind = self._runtime.memcpyHostToDevice
        self._runtime.memcpyAsync(to, values.ctypes.data, values.nbytes, kind, self._stream)

    def read(self, source: int, into: NDArray[Any]) -> None:
        """Copy device memory to a contiguous host array, after all enqueued operations have ended."""
        kind = self._runtime.memcpyDeviceToHost
        self._runtime.memcpyAsync(into.ctypes.data, source, into.nbytes, kind, self._stream)
        self.wait()

    def wait(self) -> None:
        """Wait until all enqueued operations have ended."""
        self._runtime.streamSynchronize(self._stream)
        self._sent.clear()
