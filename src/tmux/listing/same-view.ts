import type { ListedServer } from '../idle.ts';
import type { ServerView } from '../model.ts';

/** Whether all is the same that idleness is told by, but the time. */
export function isAsIdle(one: ServerView, other: ListedServer): boolean {
  return (
    one.sessions === other.sessions &&
    one.activity === other.activity &&
    one.attachedClients === other.attachedClients &&
    one.status === other.status &&
    one.listing.state === other.listing.state &&
    one.listing.reason === other.listing.reason
  );
}

/** What differs in figures and times alone is no change to a reader. */
export function looksTheSame(one: ServerView, other: ServerView): boolean {
  return (
    one.sessions === other.sessions &&
    one.status === other.status &&
    one.reason === other.reason &&
    one.detail === other.detail &&
    one.generation === other.generation &&
    one.pid === other.pid &&
    one.version === other.version &&
    one.installedVersion === other.installedVersion &&
    one.binaryDeleted === other.binaryDeleted &&
    one.openFilesLimit === other.openFilesLimit &&
    one.attachedClients === other.attachedClients &&
    one.idle === other.idle &&
    one.workingAgents === other.workingAgents &&
    one.tmuxStartTime === other.tmuxStartTime &&
    one.listing.state === other.listing.state &&
    one.listing.reason === other.listing.reason &&
    one.listing.detail === other.listing.detail
  );
}
