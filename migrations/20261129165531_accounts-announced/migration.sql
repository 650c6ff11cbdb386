-- Whatever changes who may do what is announced to every process, also when it was changed by hand.
-- When a credential was last used is no such change.
CREATE FUNCTION announce_accounts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify('muxwarden_accounts', '');
	RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE TRIGGER members_announced AFTER INSERT OR DELETE OR UPDATE ON "members" FOR EACH STATEMENT EXECUTE FUNCTION announce_accounts();
--> statement-breakpoint
CREATE TRIGGER api_keys_announced AFTER INSERT OR DELETE OR UPDATE OF "public_id", "secret_hash", "member_id", "name", "scopes", "member_ids", "made_by_admin", "expires_at", "revoked_at" ON "api_keys" FOR EACH STATEMENT EXECUTE FUNCTION announce_accounts();
--> statement-breakpoint
CREATE TRIGGER sessions_announced AFTER INSERT OR DELETE OR UPDATE OF "token_hash", "member_id", "via", "expires_at", "ended_at" ON "sessions" FOR EACH STATEMENT EXECUTE FUNCTION announce_accounts();
