import { Kind, print, type SelectionSetNode, type ValidatedSubscriptionArgs, visit } from 'graphql';

/**
 * What is asked of an event. The arguments of the subscription field itself are not in it: they
 * choose the events, which are other objects then.
 */
export function keyOf({
  operation,
  fragmentDefinitions,
  variableValues,
}: ValidatedSubscriptionArgs) {
  const chosen = {
    ...operation,
    variableDefinitions: [],
    selectionSet: withoutArguments(operation.selectionSet),
  };
  const definitions = [chosen, ...Object.values(fragmentDefinitions)];
  const values: Record<string, unknown> = {};
  for (const definition of definitions)
    visit(definition, {
      VariableDefinition: () => false,
      Variable({ name }) {
        values[name.value] = variableValues.coerced[name.value];
      },
    });
  return JSON.stringify([definitions.map((definition) => print(definition)), values]);
}

function withoutArguments(selectionSet: SelectionSetNode): SelectionSetNode {
  const selections = selectionSet.selections.map((selection) => {
    if (selection.kind === Kind.FIELD) return { ...selection, arguments: [] };
    if (selection.kind === Kind.FRAGMENT_SPREAD) return selection;
    return { ...selection, selectionSet: withoutArguments(selection.selectionSet) };
  });
  return { ...selectionSet, selections };
}
