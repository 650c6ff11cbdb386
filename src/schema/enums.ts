import { builder } from './builder.ts';

/** Enumerations that more than one type uses. */

export const TmuxServerStatus = builder.enumType('TmuxServerStatus', {
  description:
    'What a tmux server is doing, from its process and the last attempt to ask it. A zombie is dead.',
  values: {
    ABSENT: { description: 'Nobody listens on the socket: there is no server.' },
    RUNNING: { description: 'The server runs and answers.' },
    STOPPED: { description: 'The process is stopped (SIGSTOP). It is never asked.' },
    SPINNING: { description: 'It uses 90 % of a core or more and does not answer.' },
    UNRESPONSIVE: { description: 'It runs but did not answer in time.' },
    UNKNOWN: { description: 'We could not look; `reason` says why. It may well be running.' },
  } as const,
});

export const Reason = builder.enumType('Reason', {
  description:
    'Why something is not as it should be; a free sentence stands beside it in `detail`.',
  values: {
    EACCES: { description: "The directory or socket can't be entered, not even by its owner." },
    TIMEOUT: { description: 'No answer in time.' },
    OUTPUT_TOO_LARGE: { description: 'The answer was larger than what is accepted (1 MiB).' },
    MALFORMED_ANSWER: { description: 'The answer was cut or made no sense.' },
    HELPER_MISSING: { description: 'The helper is not installed; without it nothing is asked.' },
    HELPER_FAILED: { description: 'The helper could not be started, or ended unexpectedly.' },
    BACKLOG_FULL: { description: 'The server takes no more connections.' },
    DESCRIPTORS_EXHAUSTED: { description: 'The server has no file descriptor left.' },
    SOCKET_LOST: { description: 'The server runs but its socket file is gone.' },
    PATH_TAKEN: { description: 'Another server listens at this path by now.' },
    STALE_SOCKET: { description: 'A socket file that nobody listens on.' },
    UNSAFE_DIRECTORY: {
      description:
        "Others may write in the directory or in one above it, or it is not the member's.",
    },
    FOREIGN_OWNER: { description: 'Who listens there is another user.' },
    PATH_TOO_LONG: { description: 'A socket path may have 107 bytes; this one has more.' },
    NOT_TMUX: { description: 'What listens there is not a tmux server.' },
    BINARY_UNREADABLE: { description: "The binary of the server can't be opened by its owner." },
    VERSION_MISMATCH: { description: 'Client and server are of different versions.' },
    NOT_YET_ASKED: { description: 'Nobody has looked yet.' },
  } as const,
});

export const ControlSequences = builder.enumType('ControlSequences', {
  description: 'What becomes of control sequences in text.',
  values: {
    KEPT: { description: 'They stay: for a terminal.' },
    STRIPPED: {
      description:
        'For reading: without escape sequences (colours, movements, titles, clipboard, queries) and control characters other than tab, LF and CR.',
    },
  } as const,
});
