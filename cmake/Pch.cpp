// Only carries the precompiled headers that cmake/QuernRoom.cmake shares.
