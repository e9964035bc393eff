/* The JSON header of a safetensors file. */
#ifndef LSI_CHECKPOINT_SAFETENSORS_HEADER_H
#define LSI_CHECKPOINT_SAFETENSORS_HEADER_H

#include "checkpoint/safetensors.h"

/* Reads the header of the mapped file into tensors and metadata. After a failure both hold what had been read. */
LS_MUST_USE ls_status lsi_safetensors_header_read(lsi_safetensors *file);

#endif
