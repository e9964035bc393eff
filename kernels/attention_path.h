/* Which way the attention ops take on a device, in words for people: tensor cores or plain arithmetic. Follows from the
 * device's kernel variant and the type alone. */
#ifndef LSI_KERNELS_ATTENTION_PATH_H
#define LSI_KERNELS_ATTENTION_PATH_H

#include <lockstep/backend.h>

/* NULL where there is only one way, or none. */
const char *lsi_attention_path_text(ls_device *device, ls_dtype dtype);

#endif
