/* The rows of config_keys.def as data: names, limits and where each value lives in ls_config. */
#ifndef LSI_CONFIG_TABLE_H
#define LSI_CONFIG_TABLE_H

#include <lockstep/config.h>
#include <stdbool.h>
#include <stddef.h>

/* LSI_KEY_<section>_<key>, in the order of the table. */
typedef enum lsi_key_id {
#define LS_SECTION(section, help)
#define LS_END_SECTION(section)
#define LS_INT(section, key, def, lo, hi, domain, when, help) LSI_KEY_##section##_##key,
#define LS_SIZE LS_INT
#define LS_REAL LS_INT
#define LS_DURATION LS_INT
#define LS_BOOL(section, key, def, domain, when, help) LSI_KEY_##section##_##key,
#define LS_TEXT LS_BOOL
#define LS_PICK(section, key, def, choices, domain, when, help) LSI_KEY_##section##_##key,
#define LS_LIST LS_INT
#include <lockstep/config_keys.def>
#include <lockstep/config_keys_undef.h>
    LSI_KEY_COUNT
} lsi_key_id;

typedef enum lsi_key_kind {
    LSI_KEY_INT,
    LSI_KEY_SIZE,
    LSI_KEY_REAL,
    LSI_KEY_DURATION,
    LSI_KEY_BOOL,
    LSI_KEY_TEXT,
    LSI_KEY_PICK,
    LSI_KEY_LIST
} lsi_key_kind;

/* What a key may change: ROW(name, word, meaning). The word is what --help-config prints. */
#define LSI_DOMAINS(ROW)                                                                              \
    ROW(BITS, "bits", "may change loss or weights; part of the config hash; a resume warns of another value") \
    ROW(FIXED, "bits, fixed", "likewise, but a resume refuses another value")                         \
    ROW(CONTENT, "content", "a path: what lies there counts, not where")                              \
    ROW(FREE, "free", "may not change loss or weights")

typedef enum lsi_domain {
#define ROW(name, word, meaning) LSI_DOMAIN_##name,
    LSI_DOMAINS(ROW)
#undef ROW
    LSI_DOMAIN_COUNT
} lsi_domain;

typedef struct lsi_key {
    const char *section, *key;
    lsi_key_kind kind;
    lsi_domain domain;
    size_t offset;                  /* in ls_config */
    const char *fallback;           /* the default, as text */
    const char *lowest, *highest;   /* numbers and lists, else NULL */
    const char *choices;            /* picks: "a|b", else NULL */
    const char *when;               /* "" or "section.key=a|b" */
    const char *help;
} lsi_key;

const lsi_key *lsi_table_key(int id);
/* Whether the value itself may change loss or weights: it is part of the config hash. */
bool lsi_table_is_bits(const lsi_key *key);
const char *lsi_table_domain_word(lsi_domain domain);
const char *lsi_table_domain_meaning(lsi_domain domain);
/* The id, -1 when there is none. */
int lsi_table_find(const char *section, const char *key);
bool lsi_table_has_section(const char *section);
const char *lsi_table_section_help(const char *section);

/* A list "a|b|c", cut up. */
enum { LSI_CHOICES_MAX = 16 };
typedef struct lsi_choices {
    char buffer[128];
    const char *name[LSI_CHOICES_MAX];
    int n;
} lsi_choices;
void lsi_table_split(const char *choices, lsi_choices *out);
bool lsi_table_listed(const char *choices, const char *word);

/* Choices of the key that other builds have and this one lacks, as "a|b"; NULL: none. Known words: their message is not
 * "did you mean". */
const char *lsi_table_lacking(const lsi_key *key);

/* Whether the key has an effect under these values. */
bool lsi_table_in_effect(const lsi_key *key, const ls_config *values);

/* Ends the message about an unknown section or key (key NULL: only the section is in question): "; did you mean
 * 'optimizer.lr'?", or the names there are when none is near. */
enum { LSI_SUGGESTION_MAX = 256 };
void lsi_table_suggest(const char *section, const char *key, char out[LSI_SUGGESTION_MAX]);

#endif
