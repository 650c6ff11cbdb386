/* Preloaded into a process: its wall clock is off by the seconds that the file MUXWARDEN_TEST_CLOCK holds
 * (one int64), read at every look, so that a test makes it jump. The monotonic clock stays. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t zero;
static volatile int64_t *offset = &zero;

__attribute__((constructor)) static void attach(void) {
  const char *path = getenv("MUXWARDEN_TEST_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *page = file < 0 ? MAP_FAILED : mmap(0, sizeof zero, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) offset = page;
  if (file >= 0) close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec real;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &real);
  now->tv_sec = real.tv_sec;
  now->tv_usec = real.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *into) {
  struct timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  if (into) *into = real.tv_sec;
  return real.tv_sec;
}
