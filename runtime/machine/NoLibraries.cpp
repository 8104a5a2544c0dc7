// Stand-ins for what opens libraries. Halide's runtime names it for drivers of devices, and with it 33 KB of the C library's
// loader would come into programs that have none.
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the C library's own names
void *dlopen(const char *, int) noexcept {
  return nullptr;
}
void *dlsym(void *, const char *) noexcept {
  return nullptr;
}
int dlclose(void *) noexcept {
  return -1;
}
char *dlerror() noexcept {
  static char none[] = "this program opens no libraries";
  return none;
}
// NOLINTEND(readability-identifier-naming)
}
