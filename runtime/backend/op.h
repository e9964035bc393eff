/* What a backend may ask about an op from its description alone. */
#ifndef LSI_BACKEND_OP_H
#define LSI_BACKEND_OP_H

#include <lockstep/backend.h>

/* Tells ThreadSanitizer what the op reads and writes, on the calling thread: the library calls and pool threads that do
 * it are not seen in every mode. Empty in other builds. */
void lsi_op_declare_accesses(const ls_op *op, const void *arguments);

#endif
