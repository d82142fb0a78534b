/* Loads an image: the loader of mode offset, linked into the modes with the same file. */
#ifndef OO1_LOADER_H
#define OO1_LOADER_H

#include "mode.h"

#ifdef OO1_PAPER
#define OO1_LOADER oo1_loader_paper
#else
#define OO1_LOADER oo1_loader_full
#endif
extern const oo1_mode OO1_LOADER;

#endif
