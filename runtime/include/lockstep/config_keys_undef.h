/* Ends one expansion of config_keys.def. No guard: included once per expansion. */
#undef LS_SECTION
#undef LS_END_SECTION
#undef LS_INT
#undef LS_SIZE
#undef LS_REAL
#undef LS_DURATION
#undef LS_BOOL
#undef LS_TEXT
#undef LS_PICK
#undef LS_LIST
