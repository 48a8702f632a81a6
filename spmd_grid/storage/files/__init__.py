"""Files that other programs read: zarr, ParaView's, HDF5 and netCDF-4."""
