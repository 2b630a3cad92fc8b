//! Rules of a subscription.

use azservicebus::{
    ServiceBusMessage, ServiceBusRuleManager,
    administration::{
        CorrelationRuleFilter, FalseRuleFilter, RuleFilter, SqlRuleAction, SqlRuleFilter, TrueRuleFilter,
    },
};
use fe2o3_amqp_types::primitives::SimpleValue;

use crate::support::{Client, Context, Failure, SUBSCRIPTION, bodies, nothing, one, same, text};

/// The rules of a subscription without the default one.
async fn manager(context: &Context, client: &mut Client) -> Result<ServiceBusRuleManager, Failure> {
    let mut manager = client.create_rule_manager(&context.entity, SUBSCRIPTION).await?;
    let rules = manager.get_rules().await?;
    same("the rules", rules.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>(), ["$Default"])?;
    manager.delete_rule("$Default").await?;
    Ok(manager)
}

async fn send(context: &Context, client: &mut Client, subject: &str) -> Result<(), Failure> {
    let mut message = ServiceBusMessage::new(subject);
    message.set_subject(subject.to_owned());
    context.send(client, [message]).await
}

pub(crate) async fn sql_with_action(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut manager = manager(&context, &mut client).await?;
    let filter = SqlRuleFilter::new("sys.Label = 'wanted'");
    manager.create_rule("wanted", (filter, SqlRuleAction::new("SET seen = TRUE"))).await?;
    let rules = manager.get_rules().await?;
    same("the names", rules.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>(), ["wanted"])?;
    let RuleFilter::Sql(filter) = &rules[0].filters else { return Err("not an SQL filter".into()) };
    same("the expression", filter.expression.as_str(), "sys.Label = 'wanted'")?;
    for subject in ["other", "wanted"] {
        send(&context, &mut client, subject).await?;
    }
    let mut receiver = context.subscription(&mut client).await?;
    let message = one(&mut receiver).await?;
    same("the body", text(&message)?, "wanted")?;
    let properties = message.application_properties().ok_or("no properties")?;
    same("the property of the action", properties.get("seen"), Some(&SimpleValue::Bool(true)))?;
    receiver.complete_message(&message).await?;
    nothing(&mut receiver).await?;
    manager.dispose().await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn correlation(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut manager = manager(&context, &mut client).await?;
    manager.create_rule("subject", CorrelationRuleFilter::builder().subject("wanted").build()).await?;
    let rules = manager.get_rules().await?;
    let RuleFilter::Correlation(filter) = &rules[0].filters else { return Err("not a correlation filter".into()) };
    same("the subject", filter.subject.as_deref(), Some("wanted"))?;
    for subject in ["other", "wanted"] {
        send(&context, &mut client, subject).await?;
    }
    let mut receiver = context.subscription(&mut client).await?;
    same("the bodies", bodies(&mut receiver, 1).await?, ["wanted"])?;
    nothing(&mut receiver).await?;
    Ok(client.dispose().await?)
}

pub(crate) async fn true_and_false(context: Context) -> Result<(), Failure> {
    let mut client = context.client().await?;
    let mut manager = manager(&context, &mut client).await?;
    manager.create_rule("none", FalseRuleFilter::new()).await?;
    send(&context, &mut client, "1").await?;
    manager.create_rule("every", TrueRuleFilter::new()).await?;
    send(&context, &mut client, "2").await?;
    let mut receiver = context.subscription(&mut client).await?;
    same("the bodies", bodies(&mut receiver, 1).await?, ["2"])?;
    nothing(&mut receiver).await?;
    Ok(client.dispose().await?)
}
