"""Clock, power, temperature and throttle reasons of the GPU, sampled while a window runs. Reads only."""

import threading
import time
from statistics import median


class Monitor:
    """Samples NVML on a thread of its own between `start` and `stop`."""

    def __init__(self, uuid, period_s=0.005):
        import pynvml

        self._nvml = pynvml
        pynvml.nvmlInit()
        # Renamed in newer bindings.
        self._throttle_reasons = getattr(
            pynvml, "nvmlDeviceGetCurrentClocksEventReasons", None
        ) or pynvml.nvmlDeviceGetCurrentClocksThrottleReasons
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
        self.driver = text(pynvml.nvmlSystemGetDriverVersion())
        self._period_s = period_s
        self._thread = None
        self._samples = []

    def _sample(self):
        nvml, handle = self._nvml, self._handle
        return {
            "sm_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "power_w": nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0,
            "temperature_c": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "throttle_reasons": self._throttle_reasons(handle),
            "at_s": time.monotonic(),
        }

    def _run(self):
        while not self._is_over.is_set():
            self._samples.append(self._sample())
            self._is_over.wait(self._period_s)

    def start(self):
        self._samples = [self._sample()]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self, last_s):
        """What the last `last_s` seconds were like: the load before a window is not part of it."""
        self._is_over.set()
        self._thread.join()
        self._samples.append(self._sample())
        return fold(recent(self._samples, last_s))


class Blind:
    """Stands in where NVML cannot be used: windows then carry no clocks."""

    driver = None

    def start(self):
        """Nothing to start."""

    def stop(self, last_s):
        """No record."""
        return {}


def open_monitor(uuid):
    """A monitor, or with a remark a blind one: the times are worth having without clocks."""
    try:
        return Monitor(uuid)
    except Exception as error:
        print(f"no clocks or power, NVML failed: {error!r}", flush=True)
        return Blind()


def text(value):
    """Older bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value


def recent(samples, last_s):
    """The samples of the last seconds before the latest; never none."""
    end_s = samples[-1]["at_s"]
    return [sample for sample in samples if sample["at_s"] >= end_s - last_s]


def fold(samples):
    """Median clock and power, highest temperature, every throttle reason seen, as one record."""
    reasons = 0
    for sample in samples:
        reasons |= sample["throttle_reasons"]
    return {
        "sm_mhz": median(sample["sm_mhz"] for sample in samples),
        "power_w": median(sample["power_w"] for sample in samples),
        "temperature_c": max(sample["temperature_c"] for sample in samples),
        "throttle_reasons": f"{reasons:#x}",
        "samples": len(samples),
        "at_unix_s": time.time(),
    }
