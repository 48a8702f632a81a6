"""Volume of reshardings: bytes and messages over all devices, computed without visiting each device.

totals            the bytes of an exchange
overlaps          the cells that devices hold of what they need
demand            upper bounds on the cells requested from one device
digits            the numbers of devices in digits that two grids share
descent           the parts of a cut, digit by digit
aligned_overlaps  the overlaps of a dimension that both sides cut by the same axes, in very many blocks
component_search  the overlaps of dimensions that share axes
sliding_boxes     the overlaps of two boxes that slide past each other, in closed form
"""
