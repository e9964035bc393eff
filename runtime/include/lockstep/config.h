/* The configuration: typed values, made from config_keys.def. */
#ifndef LS_CONFIG_H
#define LS_CONFIG_H

#include <lockstep/status.h>
#include <lockstep/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LS_LIST_MAX = 16 };

typedef struct ls_int_list {
    int n;
    int64_t value[LS_LIST_MAX];
} ls_int_list;

/* cfg->train.global_batch. Texts and picks are owned by the configuration; sizes in bytes, durations in seconds. */
typedef struct ls_config {
#define LS_SECTION(section, help) struct {
#define LS_END_SECTION(section) } section;
#define LS_INT(section, key, def, lo, hi, domain, when, help) int64_t key;
#define LS_SIZE(section, key, def, lo, hi, domain, when, help) int64_t key;
#define LS_REAL(section, key, def, lo, hi, domain, when, help) double key;
#define LS_DURATION(section, key, def, lo, hi, domain, when, help) double key;
#define LS_BOOL(section, key, def, domain, when, help) bool key;
#define LS_TEXT(section, key, def, domain, when, help) const char *key;
#define LS_PICK(section, key, def, choices, domain, when, help) const char *key;
#define LS_LIST(section, key, def, lo, hi, domain, when, help) ls_int_list key;
#include <lockstep/config_keys.def>
#include <lockstep/config_keys_undef.h>
} ls_config;

#ifdef __cplusplus
}
#endif
#endif
