DROP INDEX "audit_events_intent";--> statement-breakpoint
CREATE INDEX "audit_events_intent" ON "audit_events" ("intent_id") WHERE intent_id is not null;--> statement-breakpoint
DROP INDEX "audit_events_member";--> statement-breakpoint
CREATE INDEX "audit_events_member" ON "audit_events" ("member_id","at") WHERE member_id is not null;--> statement-breakpoint
DROP INDEX "audit_events_actor";--> statement-breakpoint
CREATE INDEX "audit_events_actor" ON "audit_events" ("actor_id","at") WHERE actor_id is not null;