CREATE TYPE "audit_action" AS ENUM('RESTART_TMUX_SERVER', 'RESTART_PANE', 'REPAIR_TMUX_SERVER', 'SIGN_IN', 'SIGN_OUT', 'REAUTHENTICATE', 'CREATE_API_KEY', 'REVOKE_API_KEY', 'CREATE_MEMBER', 'UPDATE_MEMBER', 'DELETE_MEMBER', 'PROVISION_MEMBER', 'RESTART_SERVICE');--> statement-breakpoint
CREATE TYPE "audit_outcome" AS ENUM('SUCCEEDED', 'FAILED', 'DENIED', 'SKIPPED', 'UNKNOWN');--> statement-breakpoint
CREATE TYPE "audit_phase" AS ENUM('INTENT', 'OUTCOME');--> statement-breakpoint
CREATE TYPE "role" AS ENUM('ADMIN', 'ANALYST', 'DEVELOPER');--> statement-breakpoint
CREATE TYPE "scope" AS ENUM('READ', 'STREAM', 'ACT', 'RESTART', 'ADMIN');--> statement-breakpoint
CREATE TABLE "api_keys" (
	"id" uuid PRIMARY KEY,
	"public_id" text NOT NULL UNIQUE,
	"secret_hash" bytea NOT NULL,
	"member_id" uuid NOT NULL,
	"name" text NOT NULL,
	"scopes" "scope"[] NOT NULL,
	"member_ids" uuid[],
	"made_by_admin" boolean NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp(3) with time zone,
	"last_used_at" timestamp(3) with time zone,
	"revoked_at" timestamp(3) with time zone
);
--> statement-breakpoint
CREATE TABLE "audit_events" (
	"chain" text,
	"sequence" bigint,
	"id" uuid NOT NULL UNIQUE,
	"at" timestamp(3) with time zone NOT NULL,
	"boot_id" text NOT NULL,
	"monotonic_ms" bigint NOT NULL,
	"phase" "audit_phase" NOT NULL,
	"outcome" "audit_outcome",
	"action" "audit_action" NOT NULL,
	"actor_id" uuid,
	"actor_key_id" uuid,
	"actor_address" text,
	"actor_agent" text,
	"member_id" uuid,
	"target_id" text,
	"target_label" text,
	"code" text,
	"stated_reason" text,
	"message" text,
	"operation_id" uuid NOT NULL,
	"request_id" text NOT NULL,
	"intent_id" uuid,
	"before" jsonb,
	"after" jsonb,
	"survivors" jsonb,
	"facts" jsonb,
	"key_id" text NOT NULL,
	"previous" bytea NOT NULL,
	"hash" bytea NOT NULL,
	CONSTRAINT "audit_events_pkey" PRIMARY KEY("chain","sequence")
);
--> statement-breakpoint
CREATE TABLE "idempotency_keys" (
	"actor_id" uuid,
	"mutation" text,
	"key" text,
	"input_hash" bytea NOT NULL,
	"intent_id" uuid NOT NULL,
	"operation_id" uuid NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"answer" jsonb,
	CONSTRAINT "idempotency_keys_pkey" PRIMARY KEY("actor_id","mutation","key")
);
--> statement-breakpoint
CREATE TABLE "members" (
	"id" uuid PRIMARY KEY,
	"login" text NOT NULL,
	"role" "role" NOT NULL,
	"os_user" text,
	"disabled" boolean DEFAULT false NOT NULL,
	"password_hash" text,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"deleted_at" timestamp(3) with time zone
);
--> statement-breakpoint
CREATE TABLE "sessions" (
	"id" uuid PRIMARY KEY,
	"token_hash" bytea NOT NULL UNIQUE,
	"member_id" uuid NOT NULL,
	"via" text NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"last_seen_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp(3) with time zone NOT NULL,
	"ended_at" timestamp(3) with time zone
);
--> statement-breakpoint
CREATE TABLE "sign_in_links" (
	"token_hash" bytea PRIMARY KEY,
	"member_id" uuid NOT NULL,
	"expires_at" timestamp(3) with time zone NOT NULL,
	"used_at" timestamp(3) with time zone
);
--> statement-breakpoint
CREATE INDEX "api_keys_member" ON "api_keys" ("member_id");--> statement-breakpoint
CREATE INDEX "audit_events_operation" ON "audit_events" ("operation_id");--> statement-breakpoint
CREATE INDEX "audit_events_intent" ON "audit_events" ("intent_id");--> statement-breakpoint
CREATE INDEX "audit_events_member" ON "audit_events" ("member_id","at");--> statement-breakpoint
CREATE INDEX "audit_events_actor" ON "audit_events" ("actor_id","at");--> statement-breakpoint
CREATE INDEX "audit_events_at" ON "audit_events" ("at");--> statement-breakpoint
CREATE INDEX "idempotency_keys_created" ON "idempotency_keys" ("created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "members_login" ON "members" ("login") WHERE deleted_at is null;--> statement-breakpoint
CREATE UNIQUE INDEX "members_os_user" ON "members" ("os_user") WHERE deleted_at is null and os_user is not null;--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_member_id_members_id_fkey" FOREIGN KEY ("member_id") REFERENCES "members"("id");--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_member_id_members_id_fkey" FOREIGN KEY ("member_id") REFERENCES "members"("id");--> statement-breakpoint
ALTER TABLE "sign_in_links" ADD CONSTRAINT "sign_in_links_member_id_members_id_fkey" FOREIGN KEY ("member_id") REFERENCES "members"("id");