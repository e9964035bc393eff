/* Copies past the caches: a line that is written whole need not be read first, which saves a third of the traffic of a
 * large copy. What will be used again soon is better copied by memcpy. */
#ifndef LSI_COMM_STREAMING_H
#define LSI_COMM_STREAMING_H

#include <stddef.h>

/* As memcpy; a release store that follows makes it visible, as it does for ordinary writes. */
void lsi_streaming_copy(void *to, const void *from, size_t bytes);

#endif
