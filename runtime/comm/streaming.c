#include "comm/streaming.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

void lsi_streaming_copy(void *to, const void *from, size_t bytes)
{
    enum { LINE = 64 };
    char *out = to;
    const char *in = from;
    size_t head = (size_t)(-(uintptr_t)to % LINE);

    head = head < bytes ? head : bytes;
    memcpy(out, in, head);
    size_t end = head + (bytes - head) / LINE * LINE;
    for (size_t at = head; at < end; at += LINE) {
        for (size_t i = 0; i < LINE; i += sizeof(__m128i)) {
            __m128i part = _mm_loadu_si128((const __m128i *)(const void *)(in + at + i));

            _mm_stream_si128((__m128i *)(void *)(out + at + i), part);
        }
    }
    memcpy(out + end, in + end, bytes - end);
    _mm_sfence(); /* streaming stores keep no order of their own */
}
#else
void lsi_streaming_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif
