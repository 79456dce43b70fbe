CREATE INDEX api_answers_created_at ON tasktable.api_answers USING btree (created_at);
CREATE UNIQUE INDEX api_answers_pkey ON tasktable.api_answers USING btree (caller, idempotency_key);
CREATE UNIQUE INDEX api_keys_name ON tasktable.api_keys USING btree (name) WHERE (revoked_at IS NULL);
CREATE UNIQUE INDEX api_keys_pkey ON tasktable.api_keys USING btree (number);
CREATE UNIQUE INDEX api_keys_secret_hash ON tasktable.api_keys USING btree (secret_hash);
CREATE INDEX api_sessions_expires_at ON tasktable.api_sessions USING btree (expires_at);
CREATE UNIQUE INDEX api_sessions_pkey ON tasktable.api_sessions USING btree (token_hash);
CREATE UNIQUE INDEX applications_pkey ON tasktable.applications USING btree (role, service);
CREATE TRIGGER calendar_1_check BEFORE INSERT OR UPDATE ON tasktable.calendars FOR EACH ROW EXECUTE FUNCTION
    tasktable.before_calendar_change();
CREATE TRIGGER calendar_2_made AFTER INSERT OR DELETE ON tasktable.calendars FOR EACH ROW EXECUTE FUNCTION
    tasktable.after_calendar_change();
CREATE TRIGGER calendar_3_edited AFTER UPDATE ON tasktable.calendars FOR EACH ROW WHEN ((old.days IS DISTINCT FROM
    new.days)) EXECUTE FUNCTION tasktable.after_calendar_change();
CREATE UNIQUE INDEX calendars_pkey ON tasktable.calendars USING btree (tenant_id, name);
CREATE UNIQUE INDEX limit_buckets_pkey ON tasktable.limit_buckets USING btree (name, limit_key);
CREATE UNIQUE INDEX limits_pkey ON tasktable.limits USING btree (name);
CREATE INDEX nodes_elected ON tasktable.nodes USING btree (elected_at);
CREATE INDEX nodes_live ON tasktable.nodes USING btree (number) WHERE (dead_at IS NULL);
CREATE UNIQUE INDEX nodes_pkey ON tasktable.nodes USING btree (number);
CREATE INDEX notice_causes_at ON tasktable.notice_causes USING brin (at);
CREATE UNIQUE INDEX notice_causes_pkey ON tasktable.notice_causes USING btree (notice_id, number);
CREATE INDEX notice_causes_task ON tasktable.notice_causes USING btree (task_id);
CREATE UNIQUE INDEX notice_episodes_pkey ON tasktable.notice_episodes USING btree (rule, event, subject);
CREATE UNIQUE INDEX notice_recipients_pkey ON tasktable.notice_recipients USING btree (name);
CREATE UNIQUE INDEX notice_rule_recipients_pkey ON tasktable.notice_rule_recipients USING btree (rule, recipient);
CREATE INDEX notice_rule_recipients_recipient ON tasktable.notice_rule_recipients USING btree (recipient);
CREATE UNIQUE INDEX notice_rules_pkey ON tasktable.notice_rules USING btree (name);
CREATE INDEX pauses_ends_at ON tasktable.pauses USING btree (ends_at);
CREATE UNIQUE INDEX pauses_pkey ON tasktable.pauses USING btree (number);
CREATE UNIQUE INDEX river_job_pkey ON tasktable.river_job USING btree (id);
CREATE INDEX river_job_prioritized_fetching_index ON tasktable.river_job USING btree (state, queue, priority,
    scheduled_at, id);
CREATE INDEX river_job_state_and_finalized_at_index ON tasktable.river_job USING btree (state, finalized_at) WHERE
    (finalized_at IS NOT NULL);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON tasktable.scheduled_task_changes FOR EACH ROW EXECUTE FUNCTION
    tasktable.refuse_history_change();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON tasktable.scheduled_task_changes FOR EACH STATEMENT EXECUTE
    FUNCTION tasktable.refuse_history_change();
CREATE UNIQUE INDEX scheduled_task_changes_pkey ON tasktable.scheduled_task_changes USING btree (revision);
CREATE INDEX scheduled_task_changes_task ON tasktable.scheduled_task_changes USING btree (task_id, revision);
CREATE INDEX scheduled_task_changes_tx ON tasktable.scheduled_task_changes USING brin (tx) WITH (autosummarize='on');
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON tasktable.scheduled_task_executions FOR EACH ROW EXECUTE FUNCTION
    tasktable.refuse_history_change();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON tasktable.scheduled_task_executions FOR EACH STATEMENT EXECUTE
    FUNCTION tasktable.refuse_history_change();
CREATE TRIGGER notice AFTER INSERT ON tasktable.scheduled_task_executions FOR EACH ROW WHEN ((new.outcome = ANY
    (ARRAY['FAILED'::text, 'EXPIRED'::text, 'LOST'::text]))) EXECUTE FUNCTION tasktable.after_death();
CREATE UNIQUE INDEX scheduled_task_executions_pkey ON tasktable.scheduled_task_executions USING btree (fence);
CREATE INDEX scheduled_task_executions_task ON tasktable.scheduled_task_executions USING btree (task_id, fence);
CREATE INDEX scheduled_task_executions_time ON tasktable.scheduled_task_executions USING brin (finished_at,
    date_bin('01:00:00'::interval, finished_at, '2000-01-01 00:00:00+00'::timestamp with time zone), tx) WITH
    (autosummarize='on');
CREATE INDEX scheduled_tasks_claimable ON tasktable.scheduled_tasks USING btree (queue, type, priority, next_attempt_at,
    limit_key) WHERE ((next_attempt_at IS NOT NULL) AND (cron IS NULL));
CREATE INDEX scheduled_tasks_ended ON tasktable.scheduled_tasks USING btree (scheduled_at) WHERE (finished_at IS NOT
    NULL);
CREATE INDEX scheduled_tasks_entity ON tasktable.scheduled_tasks USING btree (entity) WHERE (entity IS NOT NULL);
CREATE INDEX scheduled_tasks_finished ON tasktable.scheduled_tasks USING btree (finished_at) WHERE (finished_at IS NOT
    NULL);
CREATE INDEX scheduled_tasks_goes_first ON tasktable.scheduled_tasks USING btree (limit_key, scheduled_at, id) WHERE
    (goes_first AND (next_attempt_at IS NOT NULL) AND (cron IS NULL));
CREATE INDEX scheduled_tasks_group_key ON tasktable.scheduled_tasks USING btree (group_key) WHERE (group_key IS NOT
    NULL);
CREATE INDEX scheduled_tasks_keyed ON tasktable.scheduled_tasks USING btree (queue, type, priority, limit_key,
    next_attempt_at) WHERE ((next_attempt_at IS NOT NULL) AND (cron IS NULL) AND (limit_key <> ''::text));
CREATE INDEX scheduled_tasks_lease_expires_at ON tasktable.scheduled_tasks USING btree (lease_expires_at) WHERE
    (lease_expires_at IS NOT NULL);
CREATE INDEX scheduled_tasks_made_late ON tasktable.scheduled_tasks USING btree (created_at) WHERE ((parent_id IS NOT
    NULL) AND ((created_at - (scheduled_at)::timestamp with time zone) > '00:00:01'::interval));
CREATE INDEX scheduled_tasks_parent ON tasktable.scheduled_tasks USING btree (parent_id, scheduled_at) WHERE (parent_id
    IS NOT NULL);
CREATE INDEX scheduled_tasks_paused_until ON tasktable.scheduled_tasks USING btree (paused_until) WHERE (paused_until IS
    NOT NULL);
CREATE UNIQUE INDEX scheduled_tasks_pkey ON tasktable.scheduled_tasks USING btree (id);
CREATE INDEX scheduled_tasks_put_off ON tasktable.scheduled_tasks USING btree (waiting_since) WHERE ((waiting_since IS
    NOT NULL) AND (next_attempt_at IS NOT NULL));
CREATE INDEX scheduled_tasks_rare ON tasktable.scheduled_tasks USING btree (status, finished_at, id) INCLUDE
    (scheduled_at, archived_at, type, queue, tenant_id) WHERE ((status)::text <> ALL (ARRAY['QUEUED'::text,
    'EXECUTING'::text, 'COMPLETED'::text]));
CREATE INDEX scheduled_tasks_recurring ON tasktable.scheduled_tasks USING btree (queue, type, next_attempt_at) WHERE
    ((next_attempt_at IS NOT NULL) AND (cron IS NOT NULL));
CREATE INDEX scheduled_tasks_resting ON tasktable.scheduled_tasks USING btree (id) WHERE ((cron IS NOT NULL) AND
    (next_attempt_at IS NULL));
CREATE INDEX scheduled_tasks_spawned_by ON tasktable.scheduled_tasks USING btree (spawned_by) WHERE (spawned_by IS NOT
    NULL);
CREATE INDEX scheduled_tasks_tenant ON tasktable.scheduled_tasks USING btree (tenant_id, scheduled_at, id) WHERE
    (tenant_id IS NOT NULL);
CREATE INDEX scheduled_tasks_waiting ON tasktable.scheduled_tasks USING btree (scheduled_at) WHERE ((finished_at IS
    NULL) AND (lease_expires_at IS NULL));
CREATE TRIGGER task_3_delete AFTER DELETE ON tasktable.scheduled_tasks FOR EACH ROW EXECUTE FUNCTION
    tasktable.after_task_change();
CREATE TRIGGER task_3_insert AFTER INSERT ON tasktable.scheduled_tasks REFERENCING NEW TABLE AS inserted FOR EACH
    STATEMENT EXECUTE FUNCTION tasktable.after_tasks_insert();
CREATE TRIGGER task_4_update AFTER UPDATE ON tasktable.scheduled_tasks FOR EACH ROW WHEN (((old.revision IS DISTINCT
    FROM new.revision) OR ((old.fence = new.fence) AND (((old.status)::text IS DISTINCT FROM (new.status)::text) OR
    ((old.paused_until)::timestamp with time zone IS DISTINCT FROM (new.paused_until)::timestamp with time zone) OR
    (old.again_at IS DISTINCT FROM new.again_at))))) EXECUTE FUNCTION tasktable.after_task_change();
CREATE TRIGGER task_5_held BEFORE DELETE ON tasktable.scheduled_tasks FOR EACH ROW WHEN ((old.fence IS NOT NULL))
    EXECUTE FUNCTION tasktable.refuse_held_delete();
CREATE TRIGGER task_6_truncate BEFORE TRUNCATE ON tasktable.scheduled_tasks FOR EACH STATEMENT EXECUTE FUNCTION
    tasktable.refuse_truncate();
CREATE TRIGGER task_7_reopen AFTER UPDATE OF status, scheduled_at, parent_id ON tasktable.scheduled_tasks FOR EACH ROW
    WHEN (((new.parent_id IS NOT NULL) AND ((new.status)::text = ANY (ARRAY['QUEUED'::text, 'PAUSED'::text])) AND
    (new.fence IS NULL) AND ((new.attempt)::integer = 0))) EXECUTE FUNCTION tasktable.reopen_occurrence();
CREATE TRIGGER task_8_if_dead AFTER UPDATE ON tasktable.scheduled_tasks FOR EACH ROW WHEN (((new.if_dead IS NOT NULL)
    AND (new.finished_at IS NOT NULL) AND (old.finished_at IS NULL))) EXECUTE FUNCTION tasktable.after_task_end();
CREATE TRIGGER zzz_task_1_edit BEFORE INSERT OR UPDATE OF id, payload, type, scheduled_at, run_now_at, priority, queue,
    expiration, expected_execution_time, max_attempts, entity, tenant_id, cron, time_zone, overlap, catch_up,
    catch_up_paused, catch_up_limit, jitter, ends_at, max_occurrences, parent_id, retention, archived_at, if_dead,
    group_key, backoff, timeout, deadline ON tasktable.scheduled_tasks FOR EACH ROW EXECUTE FUNCTION
    tasktable.before_task_change();
CREATE TRIGGER zzz_task_2_status BEFORE UPDATE OF status, paused_until ON tasktable.scheduled_tasks FOR EACH ROW WHEN
    (((NOT (old.fence IS DISTINCT FROM new.fence)) AND (((old.status)::text IS DISTINCT FROM (new.status)::text) OR
    ((old.paused_until)::timestamp with time zone IS DISTINCT FROM (new.paused_until)::timestamp with time zone)) AND
    (old.revision = new.revision) AND (current_setting('tasktable_change.context'::text, true) IS DISTINCT FROM
    'engine'::text))) EXECUTE FUNCTION tasktable.before_task_change();
CREATE TRIGGER zzz_task_8_again AFTER UPDATE OF fence ON tasktable.scheduled_tasks FOR EACH ROW WHEN (((new.again_at IS
    NOT NULL) AND (old.fence IS NOT NULL) AND (new.fence IS NULL))) EXECUTE FUNCTION tasktable.run_once_more();
CREATE UNIQUE INDEX task_defaults_pkey ON tasktable.task_defaults USING btree (type);
