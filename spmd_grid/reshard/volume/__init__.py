"""Volume of reshardings: bytes and messages over all devices, computed without visiting each device."""
