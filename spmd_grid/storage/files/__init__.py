"""Files that other programs read and write.

npy           plain ``.npy`` files
zarr_saving   zarr: save_zarr
zarr_loading  load_zarr
zarr_format   its metadata
zarr_codecs   those that arrays may name
hdf5_saving   HDF5 and netCDF-4: save_hdf5
hdf5_loading  load_hdf5
vtk_saving    ParaView: save_vtk
vtk_format    its texts
named_arrays  one array, or several with names
blocks        arrays brought to blocks that one process each holds
steps         arrays brought to other cuts, step by step
reading       files of which every process reads its own cells
publishing    files that get their names when they are whole
"""
