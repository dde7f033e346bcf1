"""The permissions of acts on memory, and two groups of people who use the admin.

Both stand in Django's own database. The permissions that Django makes by itself for each model come
only after all migrations; those the groups need are made here, where they are not there yet.
"""

from django.db import migrations

_LOOK = {
    "memory": ("auditevent", "concept", "deadletter", "lease", "receipt", "session", "setaside"),
    "django_q": ("failure", "schedule", "success"),
}
_ACTS = {
    "confirm_concept": ("concept", "Can confirm a concept"),
    "retract_concept": ("concept", "Can retract a concept"),
    "restore_concept": ("concept", "Can restore a concept"),
    "purge_concept": ("concept", "Can purge a concept"),
    "set_root_goal": ("session", "Can set a session's root goal"),
    "retry_deadletter": ("deadletter", "Can retry a dead letter"),
    "revoke_token": ("token", "Can revoke a token"),
}
_NAMES = {
    "auditevent": "audit event",
    "deadletter": "dead letter",
    "setaside": "set aside",
    "failure": "Failed task",
    "schedule": "Scheduled task",
    "success": "Successful task",
}
_REVIEWER = ("confirm_concept",)
_OPERATOR = (
    *_REVIEWER,
    "retract_concept",
    "restore_concept",
    "retry_deadletter",
    "set_root_goal",
)


def make_groups(apps, schema_editor):
    alias = schema_editor.connection.alias
    contents = apps.get_model("contenttypes", "ContentType").objects.using(alias)
    permissions = apps.get_model("auth", "Permission").objects.using(alias)
    groups = apps.get_model("auth", "Group").objects.using(alias)

    def permission(codename, model, name, app_label="memory"):
        content_type, _ = contents.get_or_create(app_label=app_label, model=model)
        found, _ = permissions.get_or_create(
            content_type=content_type, codename=codename, defaults={"name": name}
        )
        return found

    look = [
        permission(f"view_{model}", model, f"Can view {_NAMES.get(model, model)}", app_label)
        for app_label, models in _LOOK.items()
        for model in models
    ]
    acts = {name: permission(name, model, title) for name, (model, title) in _ACTS.items()}
    for group, allowed in (("reviewer", _REVIEWER), ("operator", _OPERATOR)):
        made, _ = groups.get_or_create(name=group)
        made.permissions.add(*look, *(acts[name] for name in allowed))


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
