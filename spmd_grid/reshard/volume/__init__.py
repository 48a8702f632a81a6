"""Volume of reshardings: bytes and messages over all devices, without a look at each device."""
